// The two matrix products of attention, in register tiles: scores of query rows against panels of keys, and
// sums of values weighted by probabilities. A tile multiplies several rows with what it loads, so keys and
// values come from the cache once for all of them; a row's arithmetic is the same in every tile.
#pragma once

#include "compiler/Codegen/CPU/AttentionShape.h"

#include <algorithm>
#include <functional>

namespace smelt::codegen::cpu {

// Positions whose scores a row holds at once. Softmax is folded from one chunk to the next; chunks begin at
// multiples of this, wherever the cache is read.
constexpr int64_t kChunk = 512;

class AttentionProducts {
public:
  // Rows come in multiples of the group, `mostRows` at most.
  AttentionProducts(Emitter &e, const AttentionShape &shape, int64_t mostRows);

  int64_t queryStride() const { return d; }
  // Not a multiple of a page, so that the rows of a tile do not compete for one set of the L1 cache.
  int64_t scoreStride() const { return kChunk + 16; }
  // Vectors of a row of values; the last one overlaps its neighbour when head_dim is not a multiple of the
  // lanes, or is masked when there is no neighbour.
  int64_t dimVectors() const { return (d + e.lanes() - 1) / e.lanes(); }
  int64_t vectorLength() const { return std::min(d, e.lanes()); }
  Value vectorBegin(Value vector) { return e.min(e.mul(vector, e.lanes()), d - vectorLength()); }

  // scores[r][j] = queries[r] . keys[j] for the positions j of `panels` panels.
  void scores(Value queries, Value rows, Value keys, Value panels, Value scores);

  // For each row and vector of dimensions, the sum of p[r][j] * values[j] over j = 0 .. visible(r) - 1, in
  // this order. visible must not fall from one row to the next.
  using Visible = std::function<Value(Value row)>;
  using Epilogue = std::function<void(Value row, Value vector, Value sum)>;
  void weightedValues(Value p, Value rows, Value values, const Visible &visible, const Epilogue &epilogue);

private:
  // A height of a tile, and its widths in panels of keys and vectors of values.
  struct Tile {
    int64_t rows, panels, vectors;
  };
  // Dimensions that one line of a panel holds, and the loop over keys takes at once.
  int64_t keyStep() const { return bf16 ? 2 : 1; }
  llvm::SmallVector<Values, 2> loadKeys(llvm::ArrayRef<Value> panels, Value step);
  Value loadValues(Value address);
  void scoreTile(Value queries, Value row, Value keys, Value panel, Value panels, Value scores,
                 const Tile &tile);
  void valueTile(Value p, Value row, Value values, Value vector, int64_t width, const Visible &visible,
                 const Epilogue &epilogue, const Tile &tile);
  void overRowTiles(Value rows, const std::function<void(Value begin, Value end, const Tile &)> &body);

  Emitter &e;
  int64_t d, group;
  bool bf16;                     // the cache holds bf16
  llvm::SmallVector<Tile> tiles; // rows descending
};

} // namespace smelt::codegen::cpu
