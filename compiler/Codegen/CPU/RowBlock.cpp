#include "compiler/Codegen/CPU/RowBlock.h"

#include "compiler/Codegen/CPU/QuantPanels.h"
#include "compiler/Codegen/CPU/VectorMath.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <algorithm>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {
// Rows should stay in the L2 cache, with room for the weights that stream past them.
constexpr int64_t kBlockBytes = 384 * 1024;
constexpr int64_t kMostRows = 96;
constexpr int64_t kLineBytes = 64;
// Rows so far apart, or a multiple of it, share an eighth of the L1 cache's sets or fewer.
constexpr int64_t kFewSetsBytes = 512;
// Words of a block of integers: two in each.
constexpr int64_t kBlockWords = kQuantBlock / 2;
constexpr int32_t kAbsolute = 0x7fffffff;               // all bits of an f32 but its sign
constexpr int32_t kSmallestLargest = (127 - 100) << 23; // 2^-100 as f32
constexpr int32_t kNaN = 0x7fc00000;
// Added to a number below 2^22, rounds it to an integer, which its lowest bits then hold: 1.5 * 2^23.
constexpr int32_t kRounding = 0x4b400000;
} // namespace

RowBlock::RowBlock(Emitter &e, int64_t k, WeightType weights, RowSource source) : e(e), depth(k) {
  form = weights == WeightType::i8                       ? Form::integers
         : e.isa.bf16_dot && weights == WeightType::bf16 ? Form::bf16
                                                         : Form::f32;
  int64_t element = holdsBf16() ? 2 : 4;
  // An odd number of cache lines, so that the rows of a tile do not compete for one set of the L1 cache.
  int64_t lines = (rowWords() * element + kLineBytes - 1) / kLineBytes;
  padded = (lines + 1 - lines % 2) * kLineBytes / element;
  int64_t tallest = e.isa.weightTiles(weights, RowCounts::usuallyMany).front().rows;
  rows = std::min(kMostRows, kBlockBytes / (padded * element)) / tallest * tallest;
  rows = std::max(rows, tallest);
  // Where the rows of a tile would not compete for few sets of the L1 cache, nor pairs of bf16 weights read
  // the element behind a row.
  bool apart = k * element % kFewSetsBytes != 0, pairs = weights == WeightType::bf16;
  if (source == RowSource::matrix && form == Form::f32 && apart && !(pairs && k % 2)) {
    in_place = true;
    padded = k;
  }
}

int64_t RowBlock::quantBlocks() const { return (depth + kQuantBlock - 1) / kQuantBlock; }

int64_t RowBlock::rowWords() const {
  return form == Form::integers ? quantBlocks() * (kBlockWords + 1) + 1 : depth;
}

int64_t RowBlock::bytes() const {
  if (in_place) {
    return 0;
  }
  int64_t beside = form == Form::integers ? quantBlocks() * kQuantBlock * 4 : 0;
  return rows * padded * (holdsBf16() ? 2 : 4) + beside;
}

Value RowBlock::pair(Value row, Value block, Value group, int64_t odd) const {
  Value word = e.add(e.add(e.mul(block, kBlockWords), e.mul(group, 2)), odd);
  return e.at(row, e.i32(), word);
}
Value RowBlock::correction(Value row, Value block) const {
  return e.at(row, e.i32(), e.add(block, quantBlocks() * kBlockWords));
}
Value RowBlock::factor(Value row) const { return e.at(row, e.f32(), quantBlocks() * (kBlockWords + 1)); }

Value RowBlock::target(Value block, Value index) {
  return form == Form::integers ? e.at(block, element(), rows * padded) : row(block, index);
}

void RowBlock::storeVector(Value value, Value target, Value begin) {
  if (holdsBf16()) {
    value = arith::TruncFOp::create(e.builder, e.loc, e.vec(e.bf16(), e.lanes()), value);
  }
  // Lanes past k are zero and rows are padded, so the full vector may be stored.
  e.store(value, e.at(target, element(), begin), 4);
}

void RowBlock::finishRow(Value block, Value index) {
  Value values = target(block, index);
  int64_t end = form == Form::integers ? quantBlocks() * kQuantBlock : padded;
  for (int64_t begin = (depth + e.lanes() - 1) / e.lanes() * e.lanes(); begin < end; begin += e.lanes()) {
    storeVector(e.splat(0.0, e.lanes()), values, e.c(begin));
  }
  if (form == Form::integers) {
    roundRow(values, row(block, index));
  }
}

// The bits of the largest absolute value; those of an infinity or a NaN are larger than any other's.
Value RowBlock::largest(Value values) {
  Type words = e.vec(e.i32(), e.lanes());
  Value absolute = e.splat(e.c32(kAbsolute), e.lanes());
  Values all = e.loop(e.c(0), e.c(quantBlocks() * kQuantBlock), e.c(e.lanes()),
                      {e.splat(e.c32(kSmallestLargest), e.lanes())}, [&](Value begin, ValueRange carried) {
                        Value bits = e.load(words, e.at(values, e.f32(), begin));
                        bits = arith::AndIOp::create(e.builder, e.loc, bits, absolute);
                        return Values{e.max(bits, carried[0])};
                      });
  return vector::ReductionOp::create(e.builder, e.loc, vector::CombiningKind::MAXSI, all[0]);
}

void RowBlock::roundRow(Value values, Value row) {
  auto shift = [&](Value word, int32_t by) -> Value {
    return arith::ShLIOp::create(e.builder, e.loc, word, e.c32(by));
  };
  // 2^e is 2^-14 of the largest's own power of two, or twice that where rounding would give 2^15.
  Value up = e.add(largest(values), e.c32(1 << 8));
  Value exponent = arith::ShRUIOp::create(e.builder, e.loc, up, e.c32(23));
  Value finite = e.less(exponent, e.c32(255));
  Value factor = e.select(finite, shift(e.sub(exponent, e.c32(14)), 23), e.c32(kNaN));
  e.store(factor, this->factor(row));
  Value inverse = e.splat(e.bitsToFloat(shift(e.sub(e.c32(254 + 14), exponent), 23)), e.lanes());
  Value rounding = e.splat(e.bitsToFloat(e.c32(kRounding)), e.lanes());
  Value base = e.splat(e.c32(kRounding), e.lanes());
  Type words = e.vec(e.i32(), e.lanes()), halves = e.vec(e.i16(), e.lanes());
  llvm::SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < e.lanes(); lane += 4) {
    order.append({lane, lane + 2, lane + 1, lane + 3});
  }
  e.loop(e.c(0), e.c(quantBlocks()), 1, [&](Value block) {
    Value sum;
    for (int64_t begin = 0; begin < kQuantBlock; begin += e.lanes()) {
      Value at = e.add(e.mul(block, kQuantBlock), begin);
      Value rounded = e.fma(e.load(e.vec(e.f32(), e.lanes()), e.at(values, e.f32(), at)), inverse, rounding);
      Value integers = e.sub(arith::BitcastOp::create(e.builder, e.loc, words, rounded), base);
      sum = sum ? e.add(sum, integers) : integers;
      Value kept = arith::TruncIOp::create(e.builder, e.loc, halves, e.shuffle(integers, integers, order));
      e.store(kept, e.at(row, e.i16(), at));
    }
    Value total = vector::ReductionOp::create(e.builder, e.loc, vector::CombiningKind::ADD, sum);
    e.store(e.sub(e.c32(0), shift(total, 7)), correction(row, block));
  });
}

void RowBlock::copyRows(Value block, Value count, Value source, Value stride, const RowIndex &rowIndex) {
  e.loop(e.c(0), count, 1, [&](Value index) {
    Value from = e.at(source, e.f32(), e.mul(rowIndex(index), stride));
    Value to = target(block, index);
    e.forVectors(depth, e.lanes(), [&](Value begin, int64_t length) {
      storeVector(e.loadFirst(e.f32(), e.lanes(), length, e.at(from, e.f32(), begin)), to, begin);
    });
    finishRow(block, index);
  });
}

void RowBlock::normRows(Value block, Value count, Value source, Value stride, const RowIndex &rowIndex,
                        const Norm &norm) {
  e.loop(e.c(0), count, 1, [&](Value index) {
    Value from = e.at(source, e.f32(), e.mul(rowIndex(index), stride));
    Value to = target(block, index);
    Value emitted = norm.emit ? norm.emit(index) : Value();
    Value factor = e.splat(inverseRms(e, from, depth, norm.eps), e.lanes());
    e.forVectors(depth, e.lanes(), [&](Value begin, int64_t length) {
      Value x = e.loadFirst(e.f32(), e.lanes(), length, e.at(from, e.f32(), begin));
      Type type = e.elementType(norm.type);
      Value w = e.loadFirst(type, e.lanes(), length, e.at(norm.weight, type, begin), 1);
      Value y = e.mulf(e.mulf(x, factor), e.toFloat(w));
      storeVector(y, to, begin);
      if (emitted) {
        e.storeFirst(y, length, e.at(emitted, e.f32(), begin));
      }
    });
    finishRow(block, index);
  });
}

} // namespace smelt::codegen::cpu
