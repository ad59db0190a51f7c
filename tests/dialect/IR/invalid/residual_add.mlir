// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.residual_add' op needs a finite scale, got nan}}
    %r = smelt.residual_add %x, %x scale(0x7FC00000) : tensor<?x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}
