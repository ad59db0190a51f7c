// With kv_dtype = "bf16" the caches of a CPU hold bf16 in blocks of positions, half the bytes; those of a GPU are rows
// whatever it says, and its attention shares no partial results.
// RUN: smelt-opt %s --split-input-file --smelt-fuse --smelt-plan-memory --smelt-to-kernels | FileCheck %s

// CHECK-LABEL: smelt.model @cpu
// CHECK: smelt.buffer @k_cache_h1_d4 kind(state) dtype(bf16) size(per_kv_position = 8) slots(2)
// CHECK: smelt.buffer @v_cache_h1_d4 kind(state) dtype(bf16) size(per_kv_position = 8) slots(2)
// CHECK: smelt.kernel @rope_append_q1_k1_d4_f32_kvbf16 role("rope_append") params({{.*}}kv = 2
// CHECK: smelt.kernel @attention_q1_k1_d4_kvbf16 role("attention") params({{.*}}kv = 2
// CHECK: smelt.call @attention_q1_k1_d4_kvbf16({{.*}}buffer @attention_partials) constants(token_count, kv_capacity, sequence_count)
smelt.model @cpu vocab_size(8) hidden_size(4) attributes {kv_dtype = "bf16"} {
  smelt.weight @embedding : tensor<8x4xf32> from("embedding")
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 2) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %q = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %k = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %v = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %qr = smelt.rope %q heads(1) theta(1.0e4) : tensor<?x4xf32>
      %kr = smelt.rope %k heads(1) theta(1.0e4) : tensor<?x4xf32>
      %o = smelt.attention %qr, %kr, %v query_heads(1) kv_heads(1) head_dim(4) : tensor<?x4xf32>, tensor<?x4xf32>
      %d = smelt.linear %o, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(1.0) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    %l = smelt.lm_head %y, @embedding : tensor<?x4xf32> -> tensor<?x8xf32>
    smelt.return %l : tensor<?x8xf32>
  }
}

// -----

// CHECK-LABEL: smelt.model @gpu
// CHECK-NOT: attention_partials
// CHECK: smelt.buffer @k_cache_h1_d4 kind(state) dtype(bf16) size(per_kv_position = 16) slots(2)
// CHECK: smelt.call @attention_q1_k1_d4_kvrows({{.*}}) constants(token_count, kv_capacity)
smelt.model @gpu vocab_size(8) hidden_size(4) attributes {device = "cuda", kv_dtype = "bf16"} {
  smelt.weight @embedding : tensor<8x4xbf16> from("embedding")
  smelt.weight @w : tensor<4x4xbf16> from("w")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 2) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %q = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %k = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %v = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %qr = smelt.rope %q heads(1) theta(1.0e4) : tensor<?x4xf32>
      %kr = smelt.rope %k heads(1) theta(1.0e4) : tensor<?x4xf32>
      %o = smelt.attention %qr, %kr, %v query_heads(1) kv_heads(1) head_dim(4) : tensor<?x4xf32>, tensor<?x4xf32>
      %d = smelt.linear %o, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(1.0) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    %l = smelt.lm_head %y, @embedding : tensor<?x4xf32> -> tensor<?x8xf32>
    smelt.return %l : tensor<?x8xf32>
  }
}
