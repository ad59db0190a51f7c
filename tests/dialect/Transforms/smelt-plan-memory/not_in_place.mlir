// A residual write whose input is read again afterwards gets a buffer of its own, and the last write of a body
// returns to the buffer that the segment loops through.
// RUN: smelt-opt %s --smelt-fuse --smelt-plan-memory | FileCheck %s

smelt.model @not_in_place vocab_size(8) hidden_size(4) {
  smelt.weight @embedding : tensor<8x4xf32> from("embedding")
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 2) visits(2) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      // CHECK: role("norm_linear"){{.*}}results_in = [@[[A:workspace.]]]
      %p = smelt.linear %h, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      // CHECK: role("linear_residual"){{.*}}results_in = [@[[B:workspace.]]]
      %u = smelt.linear %p, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %s = smelt.residual_add %h, %u scale(1.0) : tensor<?x4xf32>
      // CHECK: role("norm_linear"){{.*}}results_in = [@[[A]]]
      %q = smelt.linear %s, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      // CHECK: role("linear_residual"){{.*}}results_in = [@residual]
      %v = smelt.linear %q, @w : tensor<?x4xf32> -> tensor<?x4xf32>
      %t = smelt.residual_add %h, %v scale(1.0) : tensor<?x4xf32>
      smelt.yield %t : tensor<?x4xf32>
    }
    %l = smelt.lm_head %y, @embedding : tensor<?x4xf32> -> tensor<?x8xf32>
    smelt.return %l : tensor<?x8xf32>
  }
}
