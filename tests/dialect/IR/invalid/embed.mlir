// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// C1
smelt.model @m vocab_size(5) hidden_size(4) {
  smelt.weight @embedding : tensor<5x5xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.embed' op makes rows of 5 columns, but the model's hidden_size is 4}}
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x5xf32>
    smelt.return %x : tensor<?x5xf32>
  }
}

// -----

// C2
smelt.model @m vocab_size(5) hidden_size(5) {
  smelt.weight @embedding : tensor<4x5xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.embed' op needs a weight of shape 5x5, but @embedding has shape 4x5}}
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x5xf32>
    smelt.return %x : tensor<?x5xf32>
  }
}
