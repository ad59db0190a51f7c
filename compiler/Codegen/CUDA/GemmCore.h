// Products of a block of weights and a block of token rows on the tensor cores: mma.sync m16n8k16 with bf16
// operands and f32 sums, fed by cp.async through a ring of shared-memory stages.
//
// Weights stand on the M side and tokens on the N side ("swap AB"), because tokens come in any number and N
// goes in steps of 8. Both operands lie in shared memory as 8 x 8 blocks of 128 consecutive bytes, the order
// of layout `tiles` (WeightPacking.h): ldmatrix and 16-byte writes then touch every bank once, without
// padding.
#pragma once

#include "compiler/Codegen/CUDA/PrefillSupport.h"

#include <functional>

namespace smelt::codegen::cuda {

constexpr int64_t BLOCK_DEPTH = 64; // columns of the operands in one stage
constexpr int64_t PANEL_ROWS = 64;  // weight rows of one panel
constexpr int64_t PANEL_BYTES = PANEL_ROWS * BLOCK_DEPTH * 2;
constexpr int64_t PRODUCT_THREADS = 128;

// ldmatrix: `count` (1, 2 or 4) 8 x 8 matrices of 16-bit elements; lane 8j + r gives the address of row r of
// matrix j. The results are 32-bit words of two elements each.
Values loadMatrices(Emitter &e, Value address, int count, bool transpose = false);

// a * b + c: four words of a (16 x 16, by rows), two of b (16 x 8, by columns), four f32 of c. With g = lane
// / 4 and q = lane % 4, result i is at row g + 8 * (i / 2), column 2q + i % 2.
Values multiplyAdd(Emitter &e, mlir::ValueRange a, mlir::ValueRange b, mlir::ValueRange c);

// 16 bytes from global to shared memory, in the background; zeros where `valid` is false (null: always
// valid).
void copyAsync(Emitter &e, Value shared, Value global, Value valid = nullptr);
void commitCopies(Emitter &e);
// Waits until at most `pending` of this thread's latest groups of copies are under way.
void waitForCopies(Emitter &e, int64_t pending);

// How the four warps of a block share out `panels` x 64 weight rows and `tokens` token rows. The token rows
// may come in several parts (see RowFormat) whose products are added up.
struct BlockShape {
  int64_t panels; // 1 or 2
  int64_t tokens; // 8, 16, 32, 64 or 128
  int64_t parts = 1;

  int64_t warpsN() const { return panels == 1 && tokens >= 64 ? 2 : 1; }
  int64_t tilesM() const { return panels == 2 || warpsN() == 2 ? 2 : 1; } // of 16 rows, in each warp
  int64_t tilesN() const { return tokens / 8 / warpsN(); }                // of 8 tokens, in each warp
  int64_t sums() const { return tilesM() * tilesN() * 4; }                // in each thread
  int64_t partBytes() const { return tokens * BLOCK_DEPTH * 2; }
  int64_t stageBytes() const { return panels * PANEL_BYTES + parts * partBytes(); }
  // Stages that fit, at most six: beyond that the copies in flight already cover the latency of memory.
  int64_t stages(int64_t sharedBytes) const {
    int64_t fit = sharedBytes / stageBytes();
    return fit < 6 ? fit : 6;
  }
};

// One place of the result: a weight row (in its panel) and a token row (in the block), with the sums of all
// panels there.
struct PlacedSum {
  Value row, token;
  Values sums;
};

// The sum over k of one block; what is in a stage is up to `load`.
class BlockProduct {
public:
  BlockProduct(Emitter &e, const ThreadPlace &place, BlockShape shape, int64_t depth)
      : e(e), place(place), shape(shape), depth(depth) {}

  // 8 x 8 blocks in one row of blocks of the weight panels of the last stage, when that one is partial: 8
  // unless the panels are copied from narrower tiles.
  int64_t tail_row_blocks = 8;

  // Stages of 64 columns, the last one perhaps partial.
  int64_t stageCount() const { return (depth + BLOCK_DEPTH - 1) / BLOCK_DEPTH; }
  // Steps of 16 columns in a partial last stage; 0 when there is none.
  int64_t tailSteps() const { return (depth % BLOCK_DEPTH + 15) / 16; }

  // `load` fills the stage at address `stage` with columns 64 * index and on by copyAsync alone; `meanwhile`,
  // if any, is for once the first copies are under way, before the first barrier. All threads of the block
  // must come here together, with nobody still reading the ring.
  using Load = std::function<void(Value stage, Value index)>;
  Values run(Value ring, int64_t stages, const Load &load, const std::function<void()> &meanwhile = nullptr);

  llvm::SmallVector<PlacedSum> placeSums(mlir::ValueRange sums);

private:
  Values multiplyStage(Value stage, mlir::ValueRange sums, int64_t steps, int64_t rowBlocks);
  Value warpM();
  Value warpN();

  Emitter &e;
  const ThreadPlace &place;
  BlockShape shape;
  int64_t depth;
};

} // namespace smelt::codegen::cuda
