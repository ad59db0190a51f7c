// The first stage of every product of many tokens: activations as bf16 rows in scratch, for the tensor cores.
#pragma once

#include "compiler/Codegen/CUDA/PrefillSupport.h"

namespace smelt::codegen::cuda {

// Rows of scratch: `parts` times paddedColumns(width) elements, zero-padded. One part is the value rounded to
// bf16; three parts (value, what rounding left over, what was left over again) hold an f32 exactly but for
// its last bit, so that products with bf16 weights are as good as in f32.
struct RowFormat {
  int64_t width;
  int64_t parts = 1;
  int64_t partBytes() const;
  int64_t rowBytes() const { return parts * partBytes(); }
};

// How threads of a block of 128 or more take rows.
struct RowThreads {
  explicit RowThreads(int64_t width);
  int64_t perRow;                                 // threads
  int64_t block;                                  // threads
  int64_t rows() const { return block / perRow; } // of a block
};

struct RowSource {
  Value x = {};       // f32 rows of `width`
  Value count = {};   // rows
  Value norm = {};    // bf16 weights of an RMSNorm, or null
  Value epsilon = {}; // f32, with norm
  Value gather = {};  // i32: row r comes from row gather[r] of x; or null
  Value emit = {};    // f32 rows that receive the result before rounding; or null
  Value target = {};  // scratch
};

// Body of the stage for the rows `firstRow` and on of this block, RowThreads(width).rows() of them; `shared`
// has room for a word a warp.
void emitRows(Emitter &e, const RowFormat &format, const RowSource &source, Value firstRow, Value shared);

} // namespace smelt::codegen::cuda
