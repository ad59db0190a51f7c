// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.route' op cannot choose 5 of 4 experts}}
    %i, %w = smelt.route %x top_k(5) router(softmax) : tensor<?x4xf32> -> tensor<?x5xi32>, tensor<?x5xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.route' op cannot choose 0 of 4 experts}}
    %i, %w = smelt.route %x top_k(0) router(softmax) : tensor<?x4xf32> -> tensor<?x1xi32>, tensor<?x1xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// C2
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.route' op chooses 2 experts, but its results have 3 and 2 columns}}
    %i, %w = smelt.route %x top_k(2) router(softmax) : tensor<?x4xf32> -> tensor<?x3xi32>, tensor<?x2xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}
