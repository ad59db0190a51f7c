// Matrix-vector products with expert matrices, which lie in layout `tiles` (WeightPacking.h). There, 8 rows x
// 32 columns are 512 contiguous bytes: a unit, 16 bytes a lane. A lane of a warp that goes through the units
// of 8 rows adds up row lane % 8 over a quarter of the columns.
#pragma once

#include "compiler/Codegen/CUDA/Kernels.h"

namespace smelt::codegen::cuda {

constexpr int64_t BLOCK_ROWS = 8;
constexpr int64_t UNIT_COLUMNS = 32;

class TileRows {
public:
  // Rows blockRow * 8 to + 7 of matrices [rows][columns].
  TileRows(Emitter &e, int64_t rows, int64_t columns, Value blockRow);

  int64_t units() const;                                           // that a row has
  int64_t stagedColumns() const { return units() * UNIT_COLUMNS; } // of activations, zeros beyond `columns`

  // For each matrix (its first byte in global memory), the sums of this lane over units first, first +
  // stride,
  // ...: 8 loads are in flight, and the first of them are issued before `afterPrefetch` is called, which
  // makes the activations, f32[stagedColumns] in shared memory, 16-byte aligned, readable.
  Values multiply(ValueRange matrices, Value activations, Value first, int64_t stride,
                  const std::function<void()> &afterPrefetch);

  // A lane's sum as that of its row, lane % 8, in every lane.
  Value reduce(Value sum) { return e.warpSum(sum, WARP / BLOCK_ROWS, BLOCK_ROWS); }

private:
  Value unitOffset(Value unit, bool full);
  Values load(ValueRange matrices, Value unit, bool full);
  void accumulate(Value activations, Value unit, ValueRange words, Values &sums);

  Emitter &e;
  int64_t columns;          // padded
  Value tileStride;         // elements from one column of tiles to the next
  Value fullBase, tailBase; // of this lane, elements from the matrix
};

// Brings a row of f32 from global to shared memory by `threads` threads, of which this is number `thread`;
// zeros up to `padded` elements. The constructor only issues loads; finish() stores, and brings what is left
// of a long row.
class RowCopy {
public:
  RowCopy(Emitter &e, Value from, Value to, int64_t columns, int64_t padded, Value thread, int64_t threads);
  void finish();

private:
  Value load(Value item);
  void store(Value item, Value value);
  Emitter &e;
  Value from, to, thread;
  int64_t columns, padded, threads, width;
  Values loaded;
};

} // namespace smelt::codegen::cuda
