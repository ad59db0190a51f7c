// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// C1
// expected-error @+1 {{'smelt.model' op needs a positive vocab_size and hidden_size, got 0 and 8}}
smelt.model @m vocab_size(0) hidden_size(8) {}

// -----

// C2
// expected-error @+1 {{'smelt.model' op holds only ops of the smelt dialect, got 'builtin.module'}}
smelt.model @m vocab_size(4) hidden_size(8) {
  builtin.module {}
}

// -----

// C3
// expected-error @+1 {{'smelt.model' op has two forwards}}
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.weight @logits : tensor<4x4xf32> from("logits")
  // expected-note @+1 {{the first}}
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %logits = smelt.embed %tokens, @logits : tensor<?xi32> -> tensor<?x4xf32>
    smelt.return %logits : tensor<?x4xf32>
  }
  // expected-note @+1 {{the second}}
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %logits = smelt.embed %tokens, @logits : tensor<?xi32> -> tensor<?x4xf32>
    smelt.return %logits : tensor<?x4xf32>
  }
}

// -----

// C4
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-note @+1 {{the other weight}}
  smelt.weight @a : tensor<8xf32> from("layers.{layer}.norm") layers(0 to 3)
  // expected-error @+1 {{'smelt.weight' op names tensor 'layers.2.norm', as weight @a does}}
  smelt.weight @b : tensor<8xf32> from("layers.{layer}.norm") layers(2 to 4)
}

// -----

// C5
// expected-error @+1 {{'smelt.model' op has device 'tpu'; the only one to name is 'cuda'}}
smelt.model @device vocab_size(4) hidden_size(4) attributes {device = "tpu"} {
}

// -----

// C6
// expected-error @+1 {{'smelt.model' op has kv_dtype 'f16'; the only one to name is 'bf16', and f32 is what is kept without}}
smelt.model @kv_dtype vocab_size(4) hidden_size(4) attributes {kv_dtype = "f16"} {
}
