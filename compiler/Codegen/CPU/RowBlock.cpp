#include "compiler/Codegen/CPU/RowBlock.h"

#include "compiler/Codegen/CPU/VectorMath.h"

#include <algorithm>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {
// Rows should stay in the L2 cache, with room for the weights that stream past them.
constexpr int64_t kBlockBytes = 384 * 1024;
constexpr int64_t kMostRows = 96;
constexpr int64_t kLineBytes = 64;
} // namespace

RowBlock::RowBlock(Emitter &e, int64_t k, WeightType weights) : e(e), depth(k) {
  dot_bf16 = e.isa.bf16_dot && weights == WeightType::bf16;
  int64_t element = dot_bf16 ? 2 : 4;
  // An odd number of cache lines, so that the rows of a tile do not compete for one set of the L1 cache.
  int64_t lines = (k * element + kLineBytes - 1) / kLineBytes;
  padded = (lines + 1 - lines % 2) * kLineBytes / element;
  int64_t tallest = e.isa.weightTiles(weights, RowCounts::usuallyMany).front().rows;
  rows = std::min(kMostRows, kBlockBytes / (padded * element)) / tallest * tallest;
  rows = std::max(rows, tallest);
}

int64_t RowBlock::bytes() const { return rows * padded * (dot_bf16 ? 2 : 4); }

void RowBlock::storeVector(Value value, Value row, Value begin) {
  if (dot_bf16) {
    value = arith::TruncFOp::create(e.builder, e.loc, e.vec(e.bf16(), e.lanes()), value);
  }
  // Lanes past k are zero and rows are padded, so the full vector may be stored.
  e.store(value, e.at(row, element(), begin), 4);
}

void RowBlock::zeroTail(Value row) {
  for (int64_t begin = (depth + e.lanes() - 1) / e.lanes() * e.lanes(); begin < padded; begin += e.lanes()) {
    storeVector(e.splat(0.0, e.lanes()), row, e.c(begin));
  }
}

void RowBlock::copyRows(Value block, Value count, Value source, Value stride, const RowIndex &rowIndex) {
  e.loop(e.c(0), count, 1, [&](Value index) {
    Value from = e.at(source, e.f32(), e.mul(rowIndex(index), stride));
    Value to = row(block, index);
    e.forVectors(depth, e.lanes(), [&](Value begin, int64_t length) {
      storeVector(e.loadFirst(e.f32(), e.lanes(), length, e.at(from, e.f32(), begin)), to, begin);
    });
    zeroTail(to);
  });
}

void RowBlock::normRows(Value block, Value count, Value source, Value stride, const RowIndex &rowIndex,
                        const Norm &norm) {
  e.loop(e.c(0), count, 1, [&](Value index) {
    Value from = e.at(source, e.f32(), e.mul(rowIndex(index), stride));
    Value to = row(block, index);
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
    zeroTail(to);
  });
}

} // namespace smelt::codegen::cpu
