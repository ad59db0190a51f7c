// The labels are those of docs/program.md.
// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// buffer C1
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op has a negative size term}}
  smelt.buffer @a kind(workspace) dtype(f32) size(bytes = 8, per_token = -4)
}

// -----

// buffer C1
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op has size zero}}
  smelt.buffer @b kind(workspace) dtype(f32) size()
}

// -----

// buffer C2
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op of kind workspace takes no slots; only state buffers do}}
  smelt.buffer @a kind(workspace) dtype(f32) size(per_token = 4) slots(2)
}

// -----

// buffer C2
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op of kind state needs at least one slot}}
  smelt.buffer @b kind(state) dtype(f32) size(per_kv_position = 4)
}

// -----

// buffer C2
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op of kind state needs at least one slot}}
  smelt.buffer @c kind(state) dtype(f32) size(per_kv_position = 4) slots(0)
}

// -----

// buffer C3
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op of kind rope_table needs rope(<theta, dim>)}}
  smelt.buffer @a kind(rope_table) dtype(f32) size(per_position = 16)
}

// -----

// buffer C3
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op of kind workspace takes no rope}}
  smelt.buffer @b kind(workspace) dtype(f32) size(per_token = 16) rope(<theta = 1.0e4 : f64, dim = 4>)
}

// -----

// buffer C3
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op rope dim 3 is not a positive even number}}
  smelt.buffer @c kind(rope_table) dtype(f32) size(per_position = 12) rope(<theta = 1.0e4 : f64, dim = 3>)
}

// -----

// buffer C3
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op rope theta -1.000000e+00 is not positive}}
  smelt.buffer @d kind(rope_table) dtype(f32) size(per_position = 16) rope(<theta = -1.0 : f64, dim = 4>)
}

// -----

// buffer C3
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op is 20*C bytes but a rope table of dim 4 has 16*C}}
  smelt.buffer @e kind(rope_table) dtype(f32) size(per_position = 20) rope(<theta = 1.0e4 : f64, dim = 4>)
}

// -----

// buffer C4
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op of kind token_ids cannot have elements of type f32}}
  smelt.buffer @a kind(token_ids) dtype(f32) size(per_token = 4)
}

// -----

// buffer C4
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op of kind logits cannot have elements of type i32}}
  smelt.buffer @b kind(logits) dtype(i32) size(per_logit_row = 16)
}

// -----

// buffer C4
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.buffer' op of kind workspace cannot have elements of type bf16}}
  smelt.buffer @c kind(workspace) dtype(bf16) size(per_token = 4)
}

// -----

// buffer C5
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.buffer @a kind(positions) dtype(i32) size(per_token = 4)
  // expected-error @+1 {{'smelt.buffer' op is a second buffer of kind positions, after @a}}
  smelt.buffer @b kind(positions) dtype(i32) size(per_token = 4)
}

// -----

// size syntax
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{no size term 'per_layer'; there are bytes, per_token, per_logit_row, per_position, per_kv_position}}
  smelt.buffer @a kind(workspace) dtype(f32) size(per_layer = 4)
}

// -----

smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{size term 'bytes' is given twice}}
  smelt.buffer @a kind(workspace) dtype(f32) size(bytes = 4, bytes = 8)
}
