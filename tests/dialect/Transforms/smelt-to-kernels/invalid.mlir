// RUN: smelt-opt %s --smelt-to-kernels -split-input-file -verify-diagnostics

smelt.model @not_fused vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.embed' op is in no smelt.fused; run smelt-fuse first}}
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

smelt.model @not_planned vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.fused' op has no results_in for its results; run smelt-plan-memory first}}
    %x = smelt.fused role("embed")(%tokens) : (tensor<?xi32>) -> tensor<?x4xf32> {
    ^bb0(%ids: tensor<?xi32>):
      %e = smelt.embed %ids, @embedding : tensor<?xi32> -> tensor<?x4xf32>
      smelt.yield %e : tensor<?x4xf32>
    }
    smelt.return %x : tensor<?x4xf32>
  }
}
