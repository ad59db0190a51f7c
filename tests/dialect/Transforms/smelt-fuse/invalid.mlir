// RUN: smelt-opt %s --smelt-fuse -split-input-file -verify-diagnostics

smelt.model @lone_norm vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.weight @norm : tensor<4xf32> from("norm")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.rms_norm' op has no kernel in this place; a normalisation must feed a projection of whole rows}}
    %n = smelt.rms_norm %x, @norm eps(1.0e-5) : tensor<?x4xf32>
    smelt.return %n : tensor<?x4xf32>
  }
}

// -----

smelt.model @biased_residual vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.weight @bias : tensor<4xf32> from("bias")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %u = smelt.linear %x, @embedding bias(@bias) : tensor<?x4xf32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.residual_add' op has no kernel in this place; the update must be a smelt.combine or a smelt.linear without bias, used once}}
    %y = smelt.residual_add %x, %u scale(1.0) : tensor<?x4xf32>
    smelt.return %y : tensor<?x4xf32>
  }
}

// -----

smelt.model @swiglu_of_two_inputs vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %g = smelt.linear %x, @embedding : tensor<?x4xf32> -> tensor<?x4xf32>
    %u = smelt.linear %g, @embedding : tensor<?x4xf32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.swiglu' op has no kernel in this place; gate and up must be projections of one input, without bias, each used once}}
    %s = smelt.swiglu %g, %u : tensor<?x4xf32>
    smelt.return %s : tensor<?x4xf32>
  }
}

// -----

smelt.model @sum_used_twice vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.add' op has no kernel in this place; a sum must end in a residual write and have no other use}}
    %s = smelt.add %x, %x : tensor<?x4xf32>
    // expected-error @+1 {{'smelt.residual_add' op has no kernel in this place}}
    %y = smelt.residual_add %s, %s scale(1.0) : tensor<?x4xf32>
    smelt.return %y : tensor<?x4xf32>
  }
}

// -----

smelt.model @unrotated_attention vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("embedding")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      // expected-error @+1 {{'smelt.attention' op has no kernel in this place; attention needs query and key to be rotated projections}}
      %a = smelt.attention %h, %h, %h query_heads(1) kv_heads(1) head_dim(4) : tensor<?x4xf32>, tensor<?x4xf32>
      smelt.yield %a : tensor<?x4xf32>
    }
    smelt.return %y : tensor<?x4xf32>
  }
}
