#include "compiler/Codegen/CPU/QuantPanels.h"

#include "compiler/Codegen/CPU/PanelProduct.h"

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {
constexpr int64_t kLine = 64; // bytes
constexpr int64_t kBlockGroups = kQuantBlock / kQuantGroup;
// A line of scales and the codes of its two blocks.
constexpr int64_t kPairBytes = kLine + 2 * kBlockGroups * kLine;
// How far ahead of a line its panel is brought into the L1 cache, the lines of a block: decoding takes so
// many instructions for a line that reading does not run ahead by itself. The line after those is read ahead
// too, once a block, since a line of scales lies in front of every other block.
constexpr int64_t kReadAhead = kBlockGroups * kLine;
constexpr int32_t kLowBase = 0x4b000000;  // 2^23 as f32: bit 0 is worth 1
constexpr int32_t kHighBase = 0x47000000; // 2^15 as f32: bit 8 is worth 1

Value bits(Emitter &e, Value vector, int32_t mask, int32_t base) {
  auto type = cast<VectorType>(vector.getType());
  auto constant = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(type, value));
  };
  Value kept = arith::AndIOp::create(e.builder, e.loc, vector, constant(mask));
  Value word = arith::OrIOp::create(e.builder, e.loc, kept, constant(base));
  return arith::BitcastOp::create(e.builder, e.loc, e.vec(e.f32(), type.getNumElements()), word);
}
} // namespace

int64_t QuantPanels::vectors() const { return kPanelColumns / e.lanes(); }

int64_t QuantPanels::panelBytes() const {
  int64_t lines = paddedDepth() / kQuantGroup;
  return (lines + (lines + 2 * kBlockGroups - 1) / (2 * kBlockGroups)) * kLine;
}

Values QuantPanels::forGroups(const Streams &streams, Value first, Value end, bool tail, ValueRange init,
                              const Body &body) {
  Value last = tail ? e.c(-1) : e.sub(end, 1);
  Values carried = e.loop(first, end, e.c(1), init, [&](Value block, ValueRange values) {
    return overBlock(streams, block, e.equal(block, last), kBlockGroups, values, body);
  });
  if (!tail) {
    return carried;
  }
  int64_t groups = paddedDepth() % kQuantBlock / kQuantGroup;
  Value always = e.equal(e.c(0), e.c(0));
  return overBlock(streams, e.c(wholeBlocks()), always, groups ? groups : kBlockGroups, carried, body);
}

Values QuantPanels::overBlock(const Streams &streams, Value block, Value isLast, int64_t groups,
                              ValueRange init, const Body &body) {
  Type byte = e.builder.getI8Type();
  Value pair = e.mul(e.div(block, 2), kPairBytes), second = e.rem(block, 2);
  Value scaleOffset = e.add(pair, e.mul(second, kLine / 2));
  Value codeOffset = e.add(e.add(pair, kLine), e.mul(second, kBlockGroups * kLine));
  llvm::SmallVector<llvm::SmallVector<Scale, 2>> scales;
  Values codes, ahead;
  for (auto [i, panel] : llvm::enumerate(streams.panels)) {
    llvm::SmallVector<Scale, 2> &mine = scales.emplace_back();
    for (int64_t v = 0; v < vectors(); ++v) {
      mine.push_back(loadScale(e.at(panel, byte, e.add(scaleOffset, 2 * v * e.lanes()))));
    }
    codes.push_back(e.at(panel, byte, codeOffset));
    Value own = e.at(codes.back(), byte, kReadAhead);
    ahead.push_back(streams.following.empty() ? own : e.select(isLast, streams.following[i], own));
    e.prefetchNear(e.at(ahead.back(), byte, kReadAhead));
  }
  return e.loop(e.c(0), e.c(groups), e.c(1), init, [&](Value group, ValueRange carried) {
    Weights weights;
    for (auto [panel, address] : llvm::enumerate(codes)) {
      llvm::SmallVector<Values, 2> &mine = weights.emplace_back();
      e.prefetchNear(e.at(ahead[panel], byte, e.mul(group, kLine)));
      for (int64_t v = 0; v < vectors(); ++v) {
        Value line = e.at(address, byte, e.add(e.mul(group, kLine), 4 * v * e.lanes()));
        mine.push_back(decode(e.load(e.vec(e.i32(), e.lanes()), line, kLine / vectors()), scales[panel][v]));
      }
    }
    Value k = e.add(e.mul(block, kQuantBlock), e.mul(group, kQuantGroup));
    return body(k, weights, carried);
  });
}

QuantPanels::Scale QuantPanels::loadScale(Value address) {
  Type halves = e.vec(e.elementType(WeightType::bf16), e.lanes());
  Value scale = e.toFloat(e.load(halves, address, 2 * e.lanes()));
  return {scale, e.mulf(scale, e.splat(-8388736.0, e.lanes())), e.mulf(scale, e.splat(-32896.0, e.lanes()))};
}

// The four weights of each column; a column's codes are the bytes of one word.
Values QuantPanels::decode(Value codes, const Scale &scale) {
  auto type = cast<VectorType>(codes.getType());
  Value sixteen = arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(type, int32_t(16)));
  Value upper = arith::ShRUIOp::create(e.builder, e.loc, codes, sixteen);
  Values weights;
  for (Value half : {codes, upper}) {
    weights.push_back(e.fma(bits(e, half, 0xff, kLowBase), scale.scale, scale.low));
    weights.push_back(e.fma(bits(e, half, 0xff00, kHighBase), scale.scale, scale.high));
  }
  return weights;
}

} // namespace smelt::codegen::cpu
