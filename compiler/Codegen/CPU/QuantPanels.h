// Rows of 16-bit integers (RowBlock) times panels of 8-bit weights.
//
// A panel is a sequence of lines of 64 bytes (docs/artifact.md): for every 64 k one line of scales, bf16
// [2 blocks of 32 k][16 columns], then up to 16 lines of codes, each of 4 k: bytes [16 columns][4 k] that
// hold the code plus 128.
//
// The even and the odd bytes of a line are two vectors of 16-bit integers, pairs along k, which VPDPWSSD, or
// VPMADDWD and an addition, multiplies with a pair of a row. The sum of a block starts with what the 128 adds
// too much, fits 32 bits (32 * 255 * 2^15 < 2^28) and is exact; then it is multiplied with the block's scale
// and added to the sum of the blocks before it, in f32, by one FMA. Sums are finite for scales below 2^88,
// which the runtime makes sure of, up to 2^12 blocks.
#pragma once

#include "compiler/Codegen/CPU/RowBlock.h"

namespace smelt::codegen::cpu {

// k that share a scale, and k of one line of codes.
inline constexpr int64_t kQuantBlock = 32;
inline constexpr int64_t kQuantGroup = 4;

class QuantPanels {
public:
  QuantPanels(Emitter &e, const RowBlock &rows, int64_t depth) : e(e), rows(rows), depth(depth) {}

  int64_t panelBytes() const;
  int64_t blocks() const { return (depth + kQuantBlock - 1) / kQuantBlock; }

  // Some rows, one after the other, and panels side by side.
  struct Tile {
    Value row; // the first one
    int64_t rows;
    llvm::ArrayRef<Value> panels;
    // Weights to bring into the caches: either what a block asks for, or these panels themselves and then
    // those that follow in their places.
    std::function<void(Value block)> readAhead;
    llvm::ArrayRef<Value> following;
  };
  // The products, by row, then panel, then vector of columns.
  Values multiply(const Tile &tile);

private:
  // A block of a panel.
  struct Source {
    Value scales, codes;
    Value ahead; // lines to read ahead, if it does
  };
  Values overBlock(const Tile &tile, Value block, mlir::ValueRange sums);
  Source source(const Tile &tile, size_t panel, Value block, Value isLast);
  Values addGroup(const Tile &tile, llvm::ArrayRef<Source> sources, Value block, Value group,
                  mlir::ValueRange sums);
  Value row(const Tile &tile, int64_t index);
  int64_t vectors() const;

  Emitter &e;
  const RowBlock &rows;
  int64_t depth; // k
};

} // namespace smelt::codegen::cpu
