// U1..U5: what every op checks of the weights it names.
// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// U1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.embed' op needs a smelt.weight, but @embedding is not declared in the model}}
    %logits = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    smelt.return %logits : tensor<?x4xf32>
  }
}

// -----

// U1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.buffer @ids kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.embed' op needs a smelt.weight, but @ids is a smelt.buffer}}
    %logits = smelt.embed %tokens, @ids : tensor<?xi32> -> tensor<?x4xf32>
    smelt.return %logits : tensor<?x4xf32>
  }
}

// -----

// U2
smelt.model @m vocab_size(4) hidden_size(8) {
  smelt.weight @embedding : tensor<4x8xf32> from("e")
  smelt.weight @head : tensor<8x4xf32> from("h")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x8xf32>
    // expected-error @+1 {{'smelt.lm_head' op needs a weight of shape 4x8, but @head has shape 8x4}}
    %logits = smelt.lm_head %x, @head : tensor<?x8xf32> -> tensor<?x4xf32>
    smelt.return %logits : tensor<?x4xf32>
  }
}

// -----

// U2, of a bias
smelt.model @m vocab_size(4) hidden_size(8) {
  smelt.weight @embedding : tensor<4x8xf32> from("e")
  smelt.weight @head : tensor<4x8xf32> from("h")
  smelt.weight @bias : tensor<5xf32> from("b")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x8xf32>
    // expected-error @+1 {{'smelt.linear' op needs a weight of shape 4, but @bias has shape 5}}
    %logits = smelt.linear %x, @head bias(@bias) : tensor<?x8xf32> -> tensor<?x4xf32>
    smelt.return %logits : tensor<?x4xf32>
  }
}

// -----

// U2, of the heads of a norm
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.weight @norm : tensor<4xf32> from("n")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    // expected-error @+1 {{'smelt.rms_norm' op needs a weight of shape 2, but @norm has shape 4}}
    %logits = smelt.rms_norm %x, @norm eps(1.0e-6) heads(2) : tensor<?x4xf32>
    smelt.return %logits : tensor<?x4xf32>
  }
}

// -----

// U3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.weight @up : tensor<4x4xf32> from("layers.{layer}.{expert}") layers(0 to 1) experts(6)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      // expected-error @+1 {{'smelt.linear' op reads one tensor, but weight @up has 6 experts}}
      %u = smelt.linear %h, @up : tensor<?x4xf32> -> tensor<?x4xf32>
      smelt.yield %u : tensor<?x4xf32>
    }
    smelt.return %y : tensor<?x4xf32>
  }
}

// -----

// U3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.weight @up : tensor<4x4xf32> from("u")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %i, %w = smelt.route %x top_k(2) router(softmax) : tensor<?x4xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    // expected-error @+1 {{'smelt.expert_linear' op reads a tensor for each expert, but weight @up has no experts}}
    %u = smelt.expert_linear %x, %i, @up : tensor<?x4xf32>, tensor<?x2xi32> -> tensor<?x2x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// U3, seen through fused ops
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.weight @up : tensor<4x4xf32> from("layers.{layer}.{expert}") layers(0 to 1) experts(6)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(0 to 1) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      %i = smelt.fused role("route")(%h) : (tensor<?x4xf32>) -> tensor<?x2xi32> {
      ^bb0(%in: tensor<?x4xf32>):
        %index, %w = smelt.route %in top_k(2) router(softmax) : tensor<?x4xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
        smelt.yield %index : tensor<?x2xi32>
      }
      %u = smelt.fused role("experts_up")(%h, %i) : (tensor<?x4xf32>, tensor<?x2xi32>) -> tensor<?x2x4xf32> {
      ^bb0(%in: tensor<?x4xf32>, %index: tensor<?x2xi32>):
        // expected-error @+1 {{'smelt.expert_linear' op gets indices of 4 experts, but weight @up has 6 experts}}
        %up = smelt.expert_linear %in, %index, @up : tensor<?x4xf32>, tensor<?x2xi32> -> tensor<?x2x4xf32>
        smelt.yield %up : tensor<?x2x4xf32>
      }
      smelt.yield %h : tensor<?x4xf32>
    }
    smelt.return %y : tensor<?x4xf32>
  }
}

// -----

// U4
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("layers.{layer}.e") layers(1 to 3)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.embed' op is outside any segment, but weight @embedding belongs to layers 1 to 3}}
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    smelt.return %x : tensor<?x4xf32>
  }
}

// -----

// U4
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @embedding : tensor<4x4xf32> from("e")
  smelt.weight @norm : tensor<4xf32> from("layers.{layer}.n") layers(1 to 3)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x4xf32>
    %y = smelt.segment %x layers(2 to 4) visits(1) order(block) kv(per_visit) kv_base(0) : tensor<?x4xf32> {
    ^bb0(%h: tensor<?x4xf32>):
      // expected-error @+1 {{'smelt.rms_norm' op runs in layers 2 to 4, but weight @norm belongs to layers 1 to 3}}
      %n = smelt.rms_norm %h, @norm eps(1.0e-6) : tensor<?x4xf32>
      smelt.yield %n : tensor<?x4xf32>
    }
    smelt.return %y : tensor<?x4xf32>
  }
}

// -----

// U5
smelt.model @m vocab_size(4) hidden_size(8) {
  smelt.weight @embedding : tensor<4x8xi8> from("e")
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    // expected-error @+1 {{'smelt.embed' op does not read i8 weights, but @embedding is one}}
    %x = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x8xf32>
    %logits = smelt.lm_head %x, @embedding : tensor<?x8xf32> -> tensor<?x4xf32>
    smelt.return %logits : tensor<?x4xf32>
  }
}
