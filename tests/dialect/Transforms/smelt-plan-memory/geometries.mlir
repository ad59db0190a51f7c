// Segments whose attention has the same KV heads and head size share caches and take slots in the order of kv_base;
// another geometry or theta has buffers of its own. The partial results of attention share one that fits all.
// RUN: smelt-opt %s --smelt-fuse --smelt-plan-memory | FileCheck %s

// CHECK: smelt.buffer @rope_d4 kind(rope_table) {{.*}} rope(<theta = 1.000000e+04 : f64, dim = 4>)
// CHECK: smelt.buffer @rope_d4_2 kind(rope_table) {{.*}} rope(<theta = 5.000000e+02 : f64, dim = 4>)
// CHECK: smelt.buffer @rope_d2 kind(rope_table)
// CHECK-DAG: smelt.buffer @k_cache_h1_d4 kind(state) dtype(f32) size(per_kv_position = 16) slots(5)
// CHECK-DAG: smelt.buffer @v_cache_h1_d4 kind(state) dtype(f32) size(per_kv_position = 16) slots(5)
// CHECK-DAG: smelt.buffer @k_cache_h2_d2 kind(state) dtype(f32) size(per_kv_position = 16) slots(6)
// CHECK-DAG: smelt.buffer @v_cache_h2_d2 kind(state) dtype(f32) size(per_kv_position = 16) slots(6)
// CHECK: smelt.buffer @attention_partials kind(workspace) dtype(f32) size(per_position = 8, per_kv_position = 1)
// CHECK-NOT: smelt.buffer @attention_partials
smelt.model @geometries vocab_size(8) hidden_size(4) {
  smelt.weight @embedding : tensor<8x4xf32> from("embedding")
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // The later slots of the first geometry.
    // CHECK: smelt.segment {{.*}} kv_base(8) {slot_base = 2 : i64}
    %a = smelt.segment %x layers(0 to 3) visits(1) order(block) kv(per_visit) kv_base(8) : tensor<?x4xf32> {
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
    // CHECK: smelt.segment {{.*}} kv_base(0) {slot_base = 0 : i64}
    %b = smelt.segment %a layers(3 to 5) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %q = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %k = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %v = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %qr = smelt.rope %q heads(1) theta(5.0e2) : tensor<?x4xf32>
      %kr = smelt.rope %k heads(1) theta(5.0e2) : tensor<?x4xf32>
      %o = smelt.attention %qr, %kr, %v query_heads(1) kv_heads(1) head_dim(4) : tensor<?x4xf32>, tensor<?x4xf32>
      %d = smelt.linear %o, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(1.0) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    // CHECK: smelt.segment {{.*}} kv_base(2) {slot_base = 0 : i64}
    %c = smelt.segment %b layers(5 to 7) visits(3) order(layer) kv(per_visit) kv_base(2) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %q = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %k = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %v = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %qr = smelt.rope %q heads(2) theta(1.0e4) : tensor<?x4xf32>
      %kr = smelt.rope %k heads(2) theta(1.0e4) : tensor<?x4xf32>
      %o = smelt.attention %qr, %kr, %v query_heads(2) kv_heads(2) head_dim(2) : tensor<?x4xf32>, tensor<?x4xf32>
      %d = smelt.linear %o, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(1.0) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    %l = smelt.lm_head %c, @embedding : tensor<?x4xf32> -> tensor<?x8xf32>
    smelt.return %l : tensor<?x8xf32>
  }
}
