// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// C1
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op needs layers(a to b) with 0 <= a < b <= 65536, got layers(3 to 3)}}
  smelt.weight @w : tensor<8xf32> from("layers.{layer}.w") layers(3 to 3)
}

// -----

// C1
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op needs layers(a to b) with 0 <= a < b <= 65536, got layers(-1 to 3)}}
  smelt.weight @w : tensor<8xf32> from("layers.{layer}.w") layers(-1 to 3)
}

// -----

// C2
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op needs a positive number of experts, got -2}}
  smelt.weight @w : tensor<8xf32> from("layers.{layer}.experts.{expert}.w") layers(0 to 3) experts(-2)
}

// -----

// C2
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op has 6 experts but no layers}}
  smelt.weight @w : tensor<8xf32> from("experts.{expert}.w") experts(6)
}

// -----

// C3
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op has layers, but its source 'norm' has no {layer}}}
  smelt.weight @w : tensor<8xf32> from("norm") layers(0 to 3)
}

// -----

// C3
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op has no layers, but its source 'layers.{layer}.norm' has {layer}}}
  smelt.weight @w : tensor<8xf32> from("layers.{layer}.norm")
}

// -----

// C3
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op has experts, but its source 'layers.{layer}.w' has no {expert}}}
  smelt.weight @w : tensor<8x8xf32> from("layers.{layer}.w") layers(0 to 3) experts(2)
}

// -----

// C3
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op has no experts, but its source 'layers.{layer}.{expert}.w' has {expert}}}
  smelt.weight @w : tensor<8x8xf32> from("layers.{layer}.{expert}.w") layers(0 to 3)
}

// -----

// C4
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op has layout panel16, which is for matrices, but the type 'tensor<8xf32>'}}
  smelt.weight @w : tensor<8xf32> from("norm") layout(panel16)
}

// -----

// C5
smelt.model @m vocab_size(4) hidden_size(8) {
  // expected-error @+1 {{'smelt.weight' op is of i8, which is for matrices, but has the type 'tensor<8xi8>'}}
  smelt.weight @w : tensor<8xi8> from("norm")
}
