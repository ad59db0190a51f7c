// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.rms_norm' op needs a positive, finite eps, got 0.0}}
    %n = smelt.rms_norm %x, @embedding eps(0.0) : tensor<?x4xf32>
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
    // expected-error @+1 {{'smelt.rms_norm' op needs a positive, finite eps, got INF}}
    %n = smelt.rms_norm %x, @embedding eps(0x7F800000) : tensor<?x4xf32>
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
    // expected-error @+1 {{'smelt.rms_norm' op cannot split 4 columns into 3 heads}}
    %n = smelt.rms_norm %x, @embedding eps(1.0e-6) heads(3) : tensor<?x4xf32>
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
    // expected-error @+1 {{'smelt.rms_norm' op cannot split 4 columns into 0 heads}}
    %n = smelt.rms_norm %x, @embedding eps(1.0e-6) heads(0) : tensor<?x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}
