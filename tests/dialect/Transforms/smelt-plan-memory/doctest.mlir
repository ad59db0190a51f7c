// RUN: smelt-opt %s --smelt-fuse --smelt-plan-memory | FileCheck %s

// The stream enters the segment, is updated and leaves it in one buffer. The hidden rows of the two layers' MLPs
// are never alive together and share another. The logits go where the runtime reads them.

// CHECK-LABEL: smelt.model @dense
smelt.model @dense vocab_size(8) hidden_size(4) {
  smelt.weight @embedding : tensor<8x4xf32> from("embedding")
  smelt.weight @gate : tensor<6x4xf32> from("layers.{layer}.gate") layers(0 to 2)
  smelt.weight @up : tensor<6x4xf32> from("layers.{layer}.up") layers(0 to 2)
  smelt.weight @down : tensor<4x6xf32> from("layers.{layer}.down") layers(0 to 2)
  smelt.weight @wide_gate : tensor<10x4xf32> from("layers.{layer}.gate") layers(2 to 3)
  smelt.weight @wide_up : tensor<10x4xf32> from("layers.{layer}.up") layers(2 to 3)
  smelt.weight @wide_down : tensor<4x10xf32> from("layers.{layer}.down") layers(2 to 3)

  // CHECK: smelt.buffer @logits kind(logits) dtype(f32) size(per_logit_row = 32)
  // CHECK: smelt.buffer @workspace0 kind(workspace) dtype(f32) size(per_token = 40)
  // CHECK: smelt.buffer @residual kind(workspace) dtype(f32) size(per_token = 16)
  // CHECK-NOT: smelt.buffer
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // CHECK: smelt.fused role("embed"){{.*}} attributes {results_in = [@residual]}
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // CHECK: smelt.segment
    %y = smelt.segment %x layers(0 to 2) visits(3) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      // CHECK: smelt.fused role("gate_up"){{.*}} attributes {results_in = [@workspace0]}
      %g = smelt.linear %h, @gate : tensor<?x4xf32> -> tensor<?x6xf32>
      %u = smelt.linear %h, @up : tensor<?x4xf32> -> tensor<?x6xf32>
      %a = smelt.swiglu %g, %u : tensor<?x6xf32>
      // CHECK: smelt.fused role("linear_residual"){{.*}} attributes {results_in = [@residual]}
      %d = smelt.linear %a, @down : tensor<?x6xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(1.0) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    // CHECK: smelt.segment
    %z = smelt.segment %y layers(2 to 3) visits(1) order(block) kv(per_visit) kv_base(6) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      // CHECK: smelt.fused role("gate_up"){{.*}} attributes {results_in = [@workspace0]}
      %g = smelt.linear %h, @wide_gate : tensor<?x4xf32> -> tensor<?x10xf32>
      %u = smelt.linear %h, @wide_up : tensor<?x4xf32> -> tensor<?x10xf32>
      %a = smelt.swiglu %g, %u : tensor<?x10xf32>
      // CHECK: smelt.fused role("linear_residual"){{.*}} attributes {results_in = [@residual]}
      %d = smelt.linear %a, @wide_down : tensor<?x10xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(1.0) : tensor<?x4xf32>
      smelt.yield %s : tensor<?x4xf32>
    }
    // CHECK: smelt.fused role("norm_linear"){{.*}} attributes {results_in = [@logits]}
    %l = smelt.lm_head %z, @embedding : tensor<?x4xf32> -> tensor<?x8xf32>
    smelt.return %l : tensor<?x8xf32>
  }
}
