// The program level prints what it parses.
// RUN: smelt-opt %s | FileCheck %s
// RUN: smelt-opt %s | smelt-opt | FileCheck %s
// RUN: smelt-opt %s --emit-bytecode | smelt-opt | FileCheck %s

// CHECK: smelt.model @two_layers
smelt.model @two_layers vocab_size(64) hidden_size(32) {
  smelt.weight @embedding : tensor<64x32xf32> from("model.embed_tokens.weight")
  smelt.weight @s0.o_proj : tensor<32x32xf32> from("model.layers.{layer}.self_attn.o_proj.weight") layers(0 to 2)

  // CHECK: smelt.kernel @embed role("embed") params({dtype = 0 : i64, hidden = 32 : i64, vocab = 64 : i64})
  smelt.kernel @embed role("embed") params({dtype = 0, hidden = 32, vocab = 64})
  // CHECK: smelt.kernel @linear_residual role("linear_residual")
  smelt.kernel @linear_residual role("linear_residual") params({dtype = 0, in = 32, out = 32})
  smelt.kernel @attention role("attention") params({query_heads = 4, kv_heads = 2, head_dim = 8})

  // CHECK: smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @tokens kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @positions kind(positions) dtype(i32) size(per_token = 4)
  smelt.buffer @sequences kind(sequence_ids) dtype(i32) size(per_token = 4)
  // CHECK: smelt.buffer @residual kind(workspace) dtype(f32) size(per_token = 128)
  smelt.buffer @residual kind(workspace) dtype(f32) size(per_token = 128)
  // CHECK: smelt.buffer @other kind(workspace) dtype(f32) size(bytes = 8, per_token = 128, per_logit_row = 4)
  smelt.buffer @other kind(workspace) dtype(f32) size(per_token = 128, bytes = 8, per_logit_row = 4)
  // CHECK: smelt.buffer @k_cache kind(state) dtype(f32) size(per_kv_position = 64) slots(4)
  smelt.buffer @k_cache kind(state) dtype(f32) size(per_kv_position = 64) slots(4)
  smelt.buffer @v_cache kind(state) dtype(f32) size(per_kv_position = 64) slots(4)
  smelt.buffer @partials kind(workspace) dtype(f32) size(per_position = 16, per_kv_position = 2)
  // CHECK: smelt.buffer @rope kind(rope_table) dtype(f32) size(per_position = 32) rope(<theta = 1.000000e+04 : f64, dim = 8>)
  smelt.buffer @rope kind(rope_table) dtype(f32) size(per_position = 32) rope(<theta = 1.0e4 : f64, dim = 8>)

  // CHECK: smelt.program {
  smelt.program {
    // CHECK-NEXT: smelt.block {
    smelt.block {
      // CHECK-NEXT: smelt.call @embed(buffer @tokens, weight @embedding, buffer @residual) constants(token_count)
      smelt.call @embed(buffer @tokens, weight @embedding, buffer @residual) constants(token_count)
    }
    // CHECK: smelt.block layers(0 to 2) visits(2) order(layer) slot_base(0) {
    smelt.block layers(0 to 2) visits(2) order(layer) slot_base(0) {
      // CHECK-NEXT: smelt.call @attention(buffer @residual, buffer @positions, buffer @sequences, state_slot @k_cache,
      // CHECK-SAME: {{ *}}state_slot @v_cache, buffer @other, buffer @partials) constants(token_count, kv_capacity, sequence_count)
      smelt.call @attention(buffer @residual, buffer @positions, buffer @sequences, state_slot @k_cache,
                            state_slot @v_cache, buffer @other, buffer @partials) constants(token_count, kv_capacity, sequence_count)
      // CHECK-NEXT: constants(token_count, immediate 1056964608)
      smelt.call @linear_residual(buffer @other, weight @s0.o_proj, buffer @residual, buffer @residual)
        constants(token_count, immediate 1056964608)
    }
  }
}
