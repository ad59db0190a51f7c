// Reads panels of 8-bit weights: codes become f32 weights, code * scale, exactly.
//
// A panel is a sequence of lines of 64 bytes (docs/artifact.md): for every 64 k one line of scales, bf16
// [2 blocks of 32 k][16 columns], then up to 16 lines of codes, each of 4 k: bytes [16 columns][4 k] that
// hold the code plus 128.
//
// A byte b becomes the f32 2^23 + b by or-ing it into the lowest bits of 2^23, or 2^15 + b at bit 8 of 2^15:
// no conversion. One FMA then gives (2^23 + b) * scale - (2^23 + 128) * scale = code * scale: the second term
// has 24 significant bits at most, as a scale has 8, and so has the result, so that nothing is rounded. Both
// terms are finite for scales below 2^104, which the runtime makes sure of.
#pragma once

#include "compiler/Codegen/CPU/Emitter.h"

namespace smelt::codegen::cpu {

// k that share a scale, and k of one line of codes.
inline constexpr int64_t kQuantBlock = 32;
inline constexpr int64_t kQuantGroup = 4;

class QuantPanels {
public:
  QuantPanels(Emitter &e, int64_t depth) : e(e), depth(depth) {}

  int64_t panelBytes() const;
  // k with codes, padding included: a multiple of kQuantGroup.
  int64_t paddedDepth() const { return (depth + kQuantGroup - 1) / kQuantGroup * kQuantGroup; }
  int64_t wholeBlocks() const { return depth / kQuantBlock; }
  bool hasTail() const { return depth % kQuantBlock != 0; } // a short block after the whole ones

  // The weights of one group: by panel kQuantGroup values for each vector of its columns, k by k.
  using Weights = llvm::SmallVector<llvm::SmallVector<Values, 2>>;
  // `k` is that of the group's first weights. Returns what is carried on.
  using Body = std::function<Values(Value k, const Weights &weights, mlir::ValueRange carried)>;

  // Panels read side by side, and those read after them in their places, if that is known.
  struct Streams {
    llvm::ArrayRef<Value> panels, following = {};
  };
  // Calls body for each group of the whole blocks [first, end), then of the tail if asked to, in rising k.
  Values forGroups(const Streams &streams, Value first, Value end, bool tail, mlir::ValueRange init,
                   const Body &body);

private:
  struct Scale {
    Value scale, low, high; // low: -(2^23 + 128) * scale, high: -(2^15 + 128) * scale
  };
  Values overBlock(const Streams &streams, Value block, Value isLast, int64_t groups, mlir::ValueRange init,
                   const Body &body);
  Scale loadScale(Value address);
  Values decode(Value codes, const Scale &scale);
  int64_t vectors() const;

  Emitter &e;
  int64_t depth;
};

} // namespace smelt::codegen::cpu
