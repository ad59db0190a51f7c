// RUN: smelt-opt %s --smelt-fuse | FileCheck %s

// A dense layer's second half: the normalisation joins the two projections that read it, the last projection the
// residual write. The head is computed from the normalised stream in one kernel.

// CHECK-LABEL: smelt.model @dense
smelt.model @dense vocab_size(8) hidden_size(4) {
  smelt.weight @embedding : tensor<8x4xf32> from("embedding")
  smelt.weight @norm : tensor<4xf32> from("layers.{layer}.norm") layers(0 to 2)
  smelt.weight @gate : tensor<6x4xf32> from("layers.{layer}.gate") layers(0 to 2)
  smelt.weight @up : tensor<6x4xf32> from("layers.{layer}.up") layers(0 to 2)
  smelt.weight @down : tensor<4x6xf32> from("layers.{layer}.down") layers(0 to 2)
  smelt.weight @final_norm : tensor<4xf32> from("norm")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // CHECK: %[[X:.*]] = smelt.fused role("embed")
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // CHECK: %[[Y:.*]] = smelt.segment %[[X]]
    %y = smelt.segment %x layers(0 to 2) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    // CHECK-NEXT: ^bb0(%[[H:.*]]: tensor<?x4xf32>):
    ^bb0(%h: tensor<?x4xf32>):
      // CHECK-NEXT: %[[A:.*]] = smelt.fused role("gate_up")(%[[H]])
      // CHECK: smelt.rms_norm
      // CHECK-NEXT: smelt.linear %{{.*}}, @gate
      // CHECK-NEXT: smelt.linear %{{.*}}, @up
      // CHECK-NEXT: smelt.swiglu
      %n = smelt.rms_norm %h, @norm eps(1.0e-5) : tensor<?x4xf32>
      %g = smelt.linear %n, @gate : tensor<?x4xf32> -> tensor<?x6xf32>
      %u = smelt.linear %n, @up : tensor<?x4xf32> -> tensor<?x6xf32>
      %a = smelt.swiglu %g, %u : tensor<?x6xf32>
      // CHECK: %[[S:.*]] = smelt.fused role("linear_residual")(%[[A]], %[[H]])
      // CHECK: smelt.linear %{{.*}}, @down
      // CHECK-NEXT: smelt.residual_add
      %d = smelt.linear %a, @down : tensor<?x6xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %d scale(1.0) : tensor<?x4xf32>
      // CHECK: smelt.yield %[[S]]
      smelt.yield %s : tensor<?x4xf32>
    }
    // CHECK: %[[L:.*]] = smelt.fused role("norm_linear")(%[[Y]])
    // CHECK: smelt.rms_norm
    // CHECK-NEXT: smelt.lm_head
    %n = smelt.rms_norm %y, @final_norm eps(1.0e-5) : tensor<?x4xf32>
    %l = smelt.lm_head %n, @embedding : tensor<?x4xf32> -> tensor<?x8xf32>
    // CHECK: smelt.return %[[L]]
    smelt.return %l : tensor<?x8xf32>
  }
}
