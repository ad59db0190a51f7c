// RUN: smelt-opt %s --smelt-add-sampling | FileCheck %s
// RUN: smelt-opt %s --smelt-add-sampling | smelt-opt | FileCheck %s

// The program ends with both ways to choose a token; the runtime launches one of them.

// CHECK-LABEL: smelt.model @head
smelt.model @head vocab_size(8) hidden_size(4) {
  smelt.weight @embedding : tensor<8x4xbf16> from("embedding")
  smelt.buffer @token_ids kind(token_ids) dtype(i32) size(per_token = 4)
  smelt.buffer @positions kind(positions) dtype(i32) size(per_token = 4)
  smelt.buffer @logit_rows kind(logit_rows) dtype(i32) size(per_logit_row = 4)
  smelt.buffer @logits kind(logits) dtype(f32) size(per_logit_row = 32)
  smelt.buffer @residual kind(workspace) dtype(f32) size(per_token = 16)
  smelt.kernel @embed_h4_v8_bf16 role("embed") params({dtype = 1 : i64, hidden = 4 : i64, vocab = 8 : i64})
  smelt.kernel @head role("norm_linear") params({bias = 0, dtype = 1, emit_norm = 0, gather = 1, in = 4, norm = 0, out0 = 8, out1 = 0, out2 = 0, outs = 1})
  // CHECK: smelt.buffer @draws kind(draws) dtype(i32) size(per_logit_row = 48)
  // CHECK: smelt.buffer @sampled kind(sampled) dtype(i32) size(per_logit_row = 4)
  // CHECK: smelt.kernel @argmax_v8 role("argmax") params({vocab = 8 : i64})
  // CHECK: smelt.kernel @sample_v8 role("sample") params({vocab = 8 : i64})
  // CHECK: smelt.program {
  // CHECK: smelt.call @head
  // CHECK-NEXT: }
  // CHECK-NEXT: smelt.block {
  // CHECK-NEXT: smelt.call @argmax_v8(buffer @logits, buffer @draws, buffer @token_ids, buffer @positions, buffer @sampled) constants(logit_row_count)
  // CHECK-NEXT: smelt.call @sample_v8(buffer @logits, buffer @draws, buffer @token_ids, buffer @positions, buffer @sampled) constants(logit_row_count)
  // CHECK-NEXT: }
  smelt.program {
    smelt.block {
      smelt.call @embed_h4_v8_bf16(buffer @token_ids, weight @embedding, buffer @residual) constants(token_count)
      smelt.call @head(buffer @residual, buffer @logit_rows, weight @embedding, buffer @logits) constants(logit_row_count, immediate 0)
    }
  }
}

// Without a program nothing is added.

// CHECK-LABEL: smelt.model @early
// CHECK-NOT: smelt.kernel
smelt.model @early vocab_size(8) hidden_size(4) {
}
