// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.rope' op cannot split 4 columns into 3 heads of even size}}
    %n = smelt.rope %x heads(3) theta(1.0e4) : tensor<?x4xf32>
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
    // expected-error @+1 {{'smelt.rope' op cannot split 4 columns into 4 heads of even size}}
    %n = smelt.rope %x heads(4) theta(1.0e4) : tensor<?x4xf32>
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
    // expected-error @+1 {{'smelt.rope' op needs a positive, finite theta, got -1.0}}
    %n = smelt.rope %x heads(2) theta(-1.0) : tensor<?x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}
