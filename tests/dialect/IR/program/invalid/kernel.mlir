// The labels are those of docs/program.md.
// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// kernel C1
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.kernel' op no kernel role 'matmul'; there are embed, norm_linear, rope_append}}
  smelt.kernel @k role("matmul") params({})
}

// -----

// kernel C2: all problems at once
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+3 {{'smelt.kernel' op role 'linear_residual' needs the parameter 'in', a 64-bit integer}}
  // expected-error @+2 {{'smelt.kernel' op parameter 'dtype' is 7, outside 0..2}}
  // expected-error @+1 {{'smelt.kernel' op role 'linear_residual' has no parameter 'width'}}
  smelt.kernel @k role("linear_residual") params({out = 4, dtype = 7, width = 4})
}

// -----

// kernel C2: parameters that do not fit each other
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.kernel' op query_heads = 3 is not a multiple of kv_heads = 2}}
  smelt.kernel @a role("attention") params({query_heads = 3, kv_heads = 2, head_dim = 4})
}

// -----

// kernel C2: parameters that do not fit each other
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.kernel' op head_dim = 5 is odd}}
  smelt.kernel @b role("attention") params({query_heads = 2, kv_heads = 2, head_dim = 5})
}

// -----

// kernel C2: parameters that do not fit each other
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.kernel' op top_k = 5 is more than experts = 4}}
  smelt.kernel @c role("moe_plan") params({experts = 4, top_k = 5})
}

// -----

// kernel C2: parameters that do not fit each other
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.kernel' op outs = 2 but out1 = 0}}
  smelt.kernel @d role("norm_linear") params({in = 4, outs = 2, out0 = 4, out1 = 0, out2 = 0, norm = 1, emit_norm = 0, gather = 0, bias = 0, dtype = 0})
}

// -----

// kernel C2: parameters that do not fit each other
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.kernel' op emit_norm = 1 needs norm = 1}}
  smelt.kernel @e role("norm_linear") params({in = 4, outs = 1, out0 = 4, out1 = 0, out2 = 0, norm = 0, emit_norm = 1, gather = 0, bias = 0, dtype = 0})
}

// -----

// kernel C2: parameters that do not fit each other
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.kernel' op emit_norm = 1 and gather = 1 exclude each other}}
  smelt.kernel @f role("norm_linear") params({in = 4, outs = 1, out0 = 4, out1 = 0, out2 = 0, norm = 1, emit_norm = 1, gather = 1, bias = 0, dtype = 0})
}

// -----

// kernel C2: 8-bit matrices are read from panels alone
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.kernel' op dtype = 2 (i8) needs layout = 1 (panel16)}}
  smelt.kernel @g role("linear_residual") params({in = 4, out = 4, dtype = 2})
}

// -----

// kernel C2: tables of embeddings are not of 8 bits
smelt.model @m vocab_size(4) hidden_size(4) {
  // expected-error @+1 {{'smelt.kernel' op parameter 'dtype' is 2, outside 0..1}}
  smelt.kernel @h role("embed") params({hidden = 4, vocab = 4, dtype = 2})
}

// -----

// kernel C3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @a role("moe_plan") params({experts = 4, top_k = 2})
  // expected-error @+1 {{'smelt.kernel' op has the role and params of @a; call that kernel instead}}
  smelt.kernel @b role("moe_plan") params({experts = 4, top_k = 2})
}
