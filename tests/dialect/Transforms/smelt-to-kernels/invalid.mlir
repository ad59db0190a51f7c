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

// -----

smelt.model @stream_moves vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.fused role("embed")(%tokens) : (tensor<?xi32>) -> tensor<?x4xf32> attributes {results_in = [@a]} {
    ^bb0(%ids: tensor<?xi32>):
      %e = smelt.embed %ids, @embedding : tensor<?xi32> -> tensor<?x4xf32>
      smelt.yield %e : tensor<?x4xf32>
    }
    // expected-error @+1 {{'smelt.segment' op takes its stream in @a but yields it in @b}}
    %y = smelt.segment %x layers(0 to 2) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %u = smelt.fused role("norm_linear")(%h) : (tensor<?x4xf32>) -> tensor<?x4xf32> attributes {results_in = [@b]} {
      ^bb0(%i: tensor<?x4xf32>):
        %p = smelt.linear %i, @embedding : tensor<?x4xf32> -> tensor<?x4xf32>
        smelt.yield %p : tensor<?x4xf32>
      }
      smelt.yield %u : tensor<?x4xf32>
    }
    smelt.return %y : tensor<?x4xf32>
  }
}
