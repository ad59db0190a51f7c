#include "compiler/Codegen/CPU/QuantPanels.h"

#include "compiler/Codegen/CPU/PanelProduct.h"

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {
constexpr int64_t kLine = 64; // bytes
constexpr int64_t kBlockGroups = kQuantBlock / kQuantGroup;
// A line of scales and the codes of its two blocks.
constexpr int64_t kPairBytes = kLine + 2 * kBlockGroups * kLine;
// How far ahead of a line its panel is brought into the L1 cache, the lines of a block. The line after those
// is read ahead too, once a block, since a line of scales lies in front of every other block.
constexpr int64_t kReadAhead = kBlockGroups * kLine;
constexpr int32_t kEvenBytes = 0x00ff00ff;
} // namespace

int64_t QuantPanels::vectors() const { return kPanelColumns / e.lanes(); }

int64_t QuantPanels::panelBytes() const {
  int64_t lines = (depth + kQuantGroup - 1) / kQuantGroup;
  return (lines + (lines + 2 * kBlockGroups - 1) / (2 * kBlockGroups)) * kLine;
}

Value QuantPanels::row(const Tile &tile, int64_t index) {
  return e.at(tile.row, e.f32(), index * rows.stride());
}

Values QuantPanels::multiply(const Tile &tile) {
  Values sums(tile.rows * tile.panels.size() * vectors(), e.splat(0.0, e.lanes()));
  sums = e.loop(e.c(0), e.c(blocks()), e.c(1), sums,
                [&](Value block, ValueRange carried) { return overBlock(tile, block, carried); });
  int64_t width = tile.panels.size() * vectors();
  for (auto [i, sum] : llvm::enumerate(sums)) {
    Value factor = e.load(e.f32(), rows.factor(row(tile, static_cast<int64_t>(i) / width)));
    sum = e.mulf(sum, e.splat(factor, e.lanes()));
  }
  return sums;
}

QuantPanels::Source QuantPanels::source(const Tile &tile, size_t panel, Value block, Value isLast) {
  Type byte = e.builder.getI8Type();
  Value pair = e.mul(e.div(block, 2), kPairBytes), second = e.rem(block, 2);
  Value codes = e.add(e.add(pair, kLine), e.mul(second, kBlockGroups * kLine));
  Source source{e.at(tile.panels[panel], byte, e.add(pair, e.mul(second, kLine / 2))),
                e.at(tile.panels[panel], byte, codes), Value()};
  if (!tile.readAhead) {
    source.ahead = e.select(isLast, tile.following[panel], e.at(source.codes, byte, kReadAhead));
    e.prefetchNear(e.at(source.ahead, byte, kReadAhead));
  }
  return source;
}

Values QuantPanels::overBlock(const Tile &tile, Value block, ValueRange sums) {
  Value isLast = e.equal(block, e.c(blocks() - 1));
  int64_t left = depth - (blocks() - 1) * kQuantBlock; // k of the last block
  Value groups = e.select(isLast, e.c((left + kQuantGroup - 1) / kQuantGroup), e.c(kBlockGroups));
  if (tile.readAhead) {
    tile.readAhead(block);
  }
  llvm::SmallVector<Source> sources;
  for (size_t panel = 0; panel < tile.panels.size(); ++panel) {
    sources.push_back(source(tile, panel, block, isLast));
  }
  int64_t width = static_cast<int64_t>(tile.panels.size()) * vectors();
  Values integers;
  for (int64_t r = 0; r < tile.rows; ++r) {
    Value start = e.splat(e.load(e.i32(), rows.correction(row(tile, r), block)), e.lanes());
    integers.append(width, start);
  }
  integers = e.loop(e.c(0), groups, e.c(1), integers, [&](Value group, ValueRange carried) {
    return addGroup(tile, sources, block, group, carried);
  });
  Values next(sums);
  for (int64_t i = 0; i < width; ++i) {
    Value from = e.at(sources[i / vectors()].scales, e.i16(), i % vectors() * e.lanes());
    Value scale = e.toFloat(e.load(e.vec(e.i16(), e.lanes()), from, 2 * e.lanes()));
    for (int64_t r = 0; r < tile.rows; ++r) {
      Value product = arith::SIToFPOp::create(e.builder, e.loc, scale.getType(), integers[r * width + i]);
      next[r * width + i] = e.fma(product, scale, next[r * width + i]);
    }
  }
  return next;
}

Values QuantPanels::addGroup(const Tile &tile, ArrayRef<Source> sources, Value block, Value group,
                             ValueRange sums) {
  Type byte = e.builder.getI8Type(), words = e.vec(e.i32(), e.lanes()),
       halves = e.vec(e.i16(), 2 * e.lanes());
  Value offset = e.mul(group, kLine);
  Values even, odd;
  for (const Source &source : sources) {
    if (source.ahead) {
      e.prefetchNear(e.at(source.ahead, byte, offset));
    }
    for (int64_t v = 0; v < vectors(); ++v) {
      Value line = e.at(source.codes, byte, e.add(offset, 4 * v * e.lanes()));
      Value codes = e.load(words, line, kLine / vectors());
      Value low = arith::AndIOp::create(e.builder, e.loc, codes, e.splat(e.c32(kEvenBytes), e.lanes()));
      even.push_back(LLVM::BitcastOp::create(e.builder, e.loc, halves, low));
      Value all = LLVM::BitcastOp::create(e.builder, e.loc, halves, codes);
      Value eight = arith::ConstantOp::create(e.builder, e.loc,
                                              DenseElementsAttr::get(cast<ShapedType>(halves), int16_t(8)));
      odd.push_back(arith::ShRUIOp::create(e.builder, e.loc, all, eight));
    }
  }
  Values next(sums);
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t part = 0; part < 2; ++part) {
      Value pair = e.splat(e.load(e.i32(), rows.pair(row(tile, r), block, group, part)), e.lanes());
      Value a = LLVM::BitcastOp::create(e.builder, e.loc, halves, pair);
      for (auto [i, w] : llvm::enumerate(part ? odd : even)) {
        Value &sum = next[r * even.size() + i];
        sum = e.addPairs(sum, a, w);
      }
    }
  }
  return next;
}

} // namespace smelt::codegen::cpu
