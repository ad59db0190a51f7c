// RUN: smelt-opt %s --smelt-fuse --smelt-plan-memory --smelt-to-kernels | FileCheck %s

// Two segments of the same shape: two blocks that call the same kernels with their own weights. The second one
// states its loop as data.

// CHECK-LABEL: smelt.model @dense
smelt.model @dense vocab_size(8) hidden_size(4) {
  smelt.weight @embedding : tensor<8x4xbf16> from("embedding")
  smelt.weight @norm : tensor<4xbf16> from("norm")
  smelt.weight @gate0 : tensor<6x4xbf16> from("layers.{layer}.gate") layers(0 to 1)
  smelt.weight @up0 : tensor<6x4xbf16> from("layers.{layer}.up") layers(0 to 1)
  smelt.weight @down0 : tensor<4x6xbf16> from("layers.{layer}.down") layers(0 to 1)
  smelt.weight @gate1 : tensor<6x4xbf16> from("layers.{layer}.gate") layers(1 to 4)
  smelt.weight @up1 : tensor<6x4xbf16> from("layers.{layer}.up") layers(1 to 4)
  smelt.weight @down1 : tensor<4x6xbf16> from("layers.{layer}.down") layers(1 to 4)

  // CHECK: smelt.kernel @embed_h4_v8_bf16 role("embed")
  // CHECK: smelt.kernel @gate_up_i4_o6_raw_bf16 role("gate_up") params({dtype = 1 : i64, in = 4 : i64, norm = 0 : i64, out = 6 : i64})
  // CHECK: smelt.kernel @linear_residual_i6_o4_bf16 role("linear_residual") params({dtype = 1 : i64, in = 6 : i64, out = 4 : i64})
  // CHECK: smelt.kernel @norm_linear_h4_o8_rows_bf16 role("norm_linear")
  // CHECK-NOT: smelt.kernel
  // CHECK-NOT: smelt.forward

  // CHECK: smelt.program {
  // CHECK-NEXT: smelt.block {
  // CHECK-NEXT: smelt.call @embed_h4_v8_bf16(buffer @token_ids, weight @embedding, buffer @residual) constants(token_count)
  // CHECK-NEXT: }
  // CHECK-NEXT: smelt.block layers(0 to 1) visits(1) order(block) slot_base(0) {
  // CHECK-NEXT: smelt.call @gate_up_i4_o6_raw_bf16(buffer @residual, weight @gate0, weight @up0, buffer @workspace0) constants(token_count, immediate 0)
  // CHECK-NEXT: smelt.call @linear_residual_i6_o4_bf16(buffer @workspace0, weight @down0, buffer @residual, buffer @residual) constants(token_count, immediate 1065353216)
  // CHECK-NEXT: }
  // CHECK-NEXT: smelt.block layers(1 to 4) visits(2) order(layer) slot_base(0) {
  // CHECK-NEXT: smelt.call @gate_up_i4_o6_raw_bf16(buffer @residual, weight @gate1, weight @up1, buffer @workspace0) constants(token_count, immediate 0)
  // CHECK-NEXT: smelt.call @linear_residual_i6_o4_bf16(buffer @workspace0, weight @down1, buffer @residual, buffer @residual) constants(token_count, immediate 1056964608)
  // CHECK-NEXT: }
  // CHECK-NEXT: smelt.block {
  // CHECK-NEXT: smelt.call @norm_linear_h4_o8_rows_bf16(buffer @residual, weight @norm, buffer @logit_rows, weight @embedding, buffer @logits) constants(logit_row_count, immediate 925353388)
  // CHECK-NEXT: }
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %g = smelt.linear %h, @gate0 : tensor<?x4xf32> -> tensor<?x6xf32>
      %u = smelt.linear %h, @up0 : tensor<?x4xf32> -> tensor<?x6xf32>
      %a = smelt.swiglu %g, %u : tensor<?x6xf32>
      %d = smelt.linear %a, @down0 : tensor<?x6xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(1.0) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    %z = smelt.segment %y layers(1 to 4) visits(2) order(layer) kv(per_visit) kv_base(1) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %g = smelt.linear %h, @gate1 : tensor<?x4xf32> -> tensor<?x6xf32>
      %u = smelt.linear %h, @up1 : tensor<?x4xf32> -> tensor<?x6xf32>
      %a = smelt.swiglu %g, %u : tensor<?x6xf32>
      %d = smelt.linear %a, @down1 : tensor<?x6xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(0.5) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    %n = smelt.rms_norm %z, @norm eps(1.0e-5) : tensor<?x4xf32>
    %l = smelt.lm_head %n, @embedding : tensor<?x4xf32> -> tensor<?x8xf32>
    smelt.return %l : tensor<?x8xf32>
  }
}
