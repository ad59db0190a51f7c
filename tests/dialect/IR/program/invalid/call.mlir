// The labels are those of docs/program.md.
// RUN: smelt-opt %s -split-input-file -verify-diagnostics

// call syntax
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.program {
    smelt.block {
      // expected-error @+1 {{no binding kind 'scratch'; there are buffer, state_slot, weight, weight_table}}
      smelt.call @k(scratch @a) constants()
    }
  }
}

// -----

smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.program {
    smelt.block {
      // expected-error @+1 {{no constant kind 'batch'; there are immediate, token_count, logit_row_count, sequence_count, kv_capacity}}
      smelt.call @k() constants(batch)
    }
  }
}

// -----

// call C1
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.buffer @indices kind(workspace) dtype(i32) size(per_token = 8)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op callee @indices is not a smelt.kernel}}
      smelt.call @indices() constants()
    }
  }
}

// -----

// call C2: number of bindings
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op has 1 bindings but embed takes 3}}
      smelt.call @embed(buffer @tokens) constants(token_count)
    }
  }
}

// -----

// call C2: number, then kind of constants; kind of bindings
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op has 0 constants but embed takes 1}}
      smelt.call @embed(buffer @tokens, weight @w, buffer @x) constants()
    }
  }
}

// -----

// call C2: number, then kind of constants; kind of bindings
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op constant 'tokens' is given as logit_row_count but the kernel takes token_count}}
      smelt.call @embed(buffer @tokens, weight @w, buffer @x) constants(logit_row_count)
    }
  }
}

// -----

// call C2: number, then kind of constants; kind of bindings
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'weight' (@w) is bound as buffer but embed takes a weight}}
      smelt.call @embed(buffer @tokens, buffer @w, buffer @x) constants(token_count)
    }
  }
}

// -----

// call C3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.kernel @attention role("attention") params({query_heads = 1, kv_heads = 1, head_dim = 4})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @positions kind(positions) dtype(i32) size(per_token = 4)
  smelt.buffer @sequences kind(sequence_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @y kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @k kind(state) dtype(f32) size(per_kv_position = 16) slots(1)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'weight' (@x) needs a smelt.weight, not what the symbol names}}
      smelt.call @embed(buffer @tokens, weight @x, buffer @x) constants(token_count)
    }
  }
}

// -----

// call C3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.kernel @attention role("attention") params({query_heads = 1, kv_heads = 1, head_dim = 4})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @positions kind(positions) dtype(i32) size(per_token = 4)
  smelt.buffer @sequences kind(sequence_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @y kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @k kind(state) dtype(f32) size(per_kv_position = 16) slots(1)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'out' (@z) needs a smelt.buffer; there is none of that name}}
      smelt.call @embed(buffer @tokens, weight @w, buffer @z) constants(token_count)
    }
  }
}

// -----

// call C3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.kernel @attention role("attention") params({query_heads = 1, kv_heads = 1, head_dim = 4})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @positions kind(positions) dtype(i32) size(per_token = 4)
  smelt.buffer @sequences kind(sequence_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @y kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @k kind(state) dtype(f32) size(per_kv_position = 16) slots(1)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'out' (@k) is a buffer of kind state, bound as buffer}}
      smelt.call @embed(buffer @tokens, weight @w, buffer @k) constants(token_count)
    }
  }
}

// -----

// call C3
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.kernel @attention role("attention") params({query_heads = 1, kv_heads = 1, head_dim = 4})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @positions kind(positions) dtype(i32) size(per_token = 4)
  smelt.buffer @sequences kind(sequence_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @y kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @k kind(state) dtype(f32) size(per_kv_position = 16) slots(1)
  smelt.program {
    smelt.block {
      smelt.call @embed(buffer @tokens, weight @w, buffer @x) constants(token_count)
    }
    smelt.block layers(0 to 1) visits(1) order(block) slot_base(0) {
      // expected-error @+1 {{'smelt.call' op argument 'v_cache' (@y) is a buffer of kind workspace, bound as state_slot}}
      smelt.call @attention(buffer @x, buffer @positions, buffer @sequences, state_slot @k, state_slot @y, buffer @y, buffer @x) constants(token_count, kv_capacity, sequence_count)
    }
  }
}

// -----

// call C4
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.weight @bf16 : tensor<4x4xbf16> from("bf16")
  smelt.weight @wide : tensor<4x5xf32> from("wide")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @int kind(workspace) dtype(i32) size(per_token = 16)
  smelt.buffer @small kind(workspace) dtype(f32) size(bytes = 1000, per_token = 12)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'out' (@int) has elements of type i32 but the kernel takes f32}}
      smelt.call @embed(buffer @tokens, weight @w, buffer @int) constants(token_count)
    }
  }
}

// -----

// call C4
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.weight @bf16 : tensor<4x4xbf16> from("bf16")
  smelt.weight @wide : tensor<4x5xf32> from("wide")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @int kind(workspace) dtype(i32) size(per_token = 16)
  smelt.buffer @small kind(workspace) dtype(f32) size(bytes = 1000, per_token = 12)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'out' (@small) has 1000 + 12*T bytes but the kernel touches 16*T}}
      smelt.call @embed(buffer @tokens, weight @w, buffer @small) constants(token_count)
    }
  }
}

// -----

// call C4
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.weight @bf16 : tensor<4x4xbf16> from("bf16")
  smelt.weight @wide : tensor<4x5xf32> from("wide")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @int kind(workspace) dtype(i32) size(per_token = 16)
  smelt.buffer @small kind(workspace) dtype(f32) size(bytes = 1000, per_token = 12)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'weight' (@bf16) has elements of type bf16 but the kernel takes f32}}
      smelt.call @embed(buffer @tokens, weight @bf16, buffer @x) constants(token_count)
    }
  }
}

// -----

// call C4
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.weight @bf16 : tensor<4x4xbf16> from("bf16")
  smelt.weight @wide : tensor<4x5xf32> from("wide")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @int kind(workspace) dtype(i32) size(per_token = 16)
  smelt.buffer @small kind(workspace) dtype(f32) size(bytes = 1000, per_token = 12)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'weight' (@wide) has 80 bytes but the kernel takes 64}}
      smelt.call @embed(buffer @tokens, weight @wide, buffer @x) constants(token_count)
    }
  }
}

// -----

// call C5
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @layered : tensor<4x4xf32> from("l{layer}") layers(1 to 3)
  smelt.weight @experts : tensor<4x4xf32> from("l{layer}.e{expert}") layers(1 to 3) experts(2)
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'weight' (@layered) belongs to layers 1 to 3 but the block runs outside any layer}}
      smelt.call @embed(buffer @tokens, weight @layered, buffer @x) constants(token_count)
    }
  }
}

// -----

// call C5
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @layered : tensor<4x4xf32> from("l{layer}") layers(1 to 3)
  smelt.weight @experts : tensor<4x4xf32> from("l{layer}.e{expert}") layers(1 to 3) experts(2)
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.program {
    smelt.block layers(2 to 4) visits(1) order(block) slot_base(0) {
      // expected-error @+1 {{'smelt.call' op argument 'weight' (@layered) belongs to layers 1 to 3 but the block runs layers 2 to 4}}
      smelt.call @embed(buffer @tokens, weight @layered, buffer @x) constants(token_count)
    }
  }
}

// -----

// call C5
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.weight @layered : tensor<4x4xf32> from("l{layer}") layers(1 to 3)
  smelt.weight @experts : tensor<4x4xf32> from("l{layer}.e{expert}") layers(1 to 3) experts(2)
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.program {
    smelt.block layers(1 to 3) visits(1) order(block) slot_base(0) {
      // expected-error @+1 {{'smelt.call' op argument 'weight' (@experts) has 2 experts but the kernel takes 0}}
      smelt.call @embed(buffer @tokens, weight @experts, buffer @x) constants(token_count)
    }
  }
}

// -----

// call C6
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.kernel @attention role("attention") params({query_heads = 1, kv_heads = 1, head_dim = 4})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @positions kind(positions) dtype(i32) size(per_token = 4)
  smelt.buffer @sequences kind(sequence_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @y kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @k kind(state) dtype(f32) size(per_kv_position = 16) slots(4)
  smelt.buffer @v kind(state) dtype(f32) size(per_kv_position = 16) slots(4)
  smelt.program {
    smelt.block {
      smelt.call @embed(buffer @tokens, weight @w, buffer @x) constants(token_count)
      // expected-error @+1 {{'smelt.call' op argument 'k_cache' (@k) has 4 slots but the block uses none: it has no layers}}
      smelt.call @attention(buffer @x, buffer @positions, buffer @sequences, state_slot @k, state_slot @v, buffer @y, buffer @x) constants(token_count, kv_capacity, sequence_count)
    }
  }
}

// -----

// call C6
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.kernel @attention role("attention") params({query_heads = 1, kv_heads = 1, head_dim = 4})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @positions kind(positions) dtype(i32) size(per_token = 4)
  smelt.buffer @sequences kind(sequence_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @y kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @k kind(state) dtype(f32) size(per_kv_position = 16) slots(4)
  smelt.buffer @v kind(state) dtype(f32) size(per_kv_position = 16) slots(4)
  smelt.program {
    smelt.block {
      smelt.call @embed(buffer @tokens, weight @w, buffer @x) constants(token_count)
    }
    smelt.block layers(0 to 2) visits(2) order(block) slot_base(1) {
      // expected-error @+1 {{'smelt.call' op argument 'k_cache' (@k) has 4 slots but the block uses 5}}
      smelt.call @attention(buffer @x, buffer @positions, buffer @sequences, state_slot @k, state_slot @v, buffer @y, buffer @x) constants(token_count, kv_capacity, sequence_count)
    }
  }
}

// -----

// call C7
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0})
  smelt.kernel @linear role("linear_residual") params({in = 4, out = 4, dtype = 0})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @table kind(rope_table) dtype(f32) size(per_position = 16) rope(<theta = 1.0e4 : f64, dim = 4>)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @y kind(workspace) dtype(f32) size(per_token = 16)
  smelt.buffer @state kind(state) dtype(f32) size(per_token = 16) slots(1)
  smelt.program {
    smelt.block {
      smelt.call @embed(buffer @tokens, weight @w, buffer @x) constants(token_count)
      smelt.call @embed(buffer @tokens, weight @w, buffer @y) constants(token_count)
      // expected-error @+1 {{'smelt.call' op binds @x as 'a' and 'x_out', one of which the kernel writes}}
      smelt.call @linear(buffer @x, weight @w, buffer @y, buffer @x) constants(token_count, immediate 0)
    }
  }
}

// -----

// call C7
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @plan role("moe_plan") params({experts = 1, top_k = 1})
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @rows kind(positions) dtype(i32) size(bytes = 16, per_token = 8)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'plan' (@rows) is written by the kernel but is of kind positions}}
      smelt.call @plan(buffer @tokens, buffer @rows) constants(token_count)
    }
  }
}

// -----

// call C4
smelt.model @m vocab_size(4) hidden_size(4) {
  smelt.kernel @embed role("embed") params({hidden = 4, vocab = 4, dtype = 0, layout = 1})
  smelt.weight @w : tensor<4x4xf32> from("w")
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @x kind(workspace) dtype(f32) size(per_token = 16)
  smelt.program {
    smelt.block {
      // expected-error @+1 {{'smelt.call' op argument 'weight' (@w) has layout row_major but the kernel takes panel16}}
      smelt.call @embed(buffer @tokens, weight @w, buffer @x) constants(token_count)
    }
  }
}
