// RUN: smelt-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// C1, of the input
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %i, %w = smelt.route %x top_k(2) router(softmax) : tensor<?x4xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %r = "test.make"() : () -> tensor<?x3x4xf32>
    // expected-error @+1 {{'smelt.expert_linear' op has 3 input rows a token, but 2 indices}}
    %u = smelt.expert_linear %r, %i, @embedding : tensor<?x3x4xf32>, tensor<?x2xi32> -> tensor<?x2x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C1, of the result
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %i, %w = smelt.route %x top_k(2) router(softmax) : tensor<?x4xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // expected-error @+1 {{'smelt.expert_linear' op has 3 result rows a token, but 2 indices}}
    %u = smelt.expert_linear %x, %i, @embedding : tensor<?x4xf32>, tensor<?x2xi32> -> tensor<?x3x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}
