// RUN: smelt-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// C1, of the weights
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %r = "test.make"() : () -> tensor<?x3x4xf32>
    %w = "test.make"() : () -> tensor<?x2xf32>
    // expected-error @+1 {{'smelt.combine' op has 3 rows a token, but 2 weights}}
    %c = smelt.combine %r, %w : tensor<?x3x4xf32>, tensor<?x2xf32> -> tensor<?x4xf32>
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
    %r = "test.make"() : () -> tensor<?x3x4xf32>
    %w = "test.make"() : () -> tensor<?x3xf32>
    // expected-error @+1 {{'smelt.combine' op has rows of 4 columns, but a result of 5}}
    %c = smelt.combine %r, %w : tensor<?x3x4xf32>, tensor<?x3xf32> -> tensor<?x5xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}
