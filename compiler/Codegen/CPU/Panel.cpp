#include "compiler/Codegen/CPU/Panel.h"

#include "compiler/Codegen/CPU/VectorMath.h"

#include <algorithm>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {
// A row block of activations should stay in the L2 cache while the weights stream past it.
constexpr int64_t kPanelBytes = 256 * 1024;
constexpr unsigned kUnaligned = 1; // weights lie where the file has them
} // namespace

Panel::Panel(Emitter &e, int64_t k, WeightType weights) : e(e), depth(k), weights(weights) {
  dot_bf16 = e.isa.bf16_dot && weights == WeightType::bf16;
  chunk = dot_bf16 ? 2 * e.lanes() : e.lanes();
  padded = (k + chunk - 1) / chunk * chunk;
  row_block = 64;
  while (row_block > 8 && row_block * padded * (dot_bf16 ? 2 : 4) > kPanelBytes) {
    row_block /= 2;
  }
}

int64_t Panel::bytes() const { return (row_block * padded * (dot_bf16 ? 2 : 4) + 63) / 64 * 64; }

void Panel::storePanelVector(Value value, Value panelRow, Value begin, int64_t length) {
  Type element = dot_bf16 ? e.bf16() : e.f32();
  if (dot_bf16) {
    Type type = e.vec(e.bf16(), e.lanes());
    value = arith::TruncFOp::create(e.builder, e.loc, type, value);
  }
  // The lanes beyond `length` are zero, and rows are padded, so the full vector may be stored.
  e.store(value, e.at(panelRow, element, begin), 4);
}

namespace {
// Rows are padded to the chunk, which may be two vectors: the vectors past K hold zeros.
void zeroTail(Emitter &e, int64_t depth, int64_t padded, const std::function<void(Value, Value)> &store) {
  int64_t covered = (depth + e.lanes() - 1) / e.lanes() * e.lanes();
  for (; covered < padded; covered += e.lanes()) {
    store(e.splat(0.0, e.lanes()), e.c(covered));
  }
}
} // namespace

void Panel::copyRows(Value panel, Value rows, Value source, Value stride, const RowIndex &rowIndex) {
  Type element = dot_bf16 ? e.bf16() : e.f32();
  e.loop(e.c(0), rows, 1, [&](Value row) {
    Value from = e.at(source, e.f32(), e.mul(rowIndex ? rowIndex(row) : row, stride));
    Value to = e.at(panel, element, e.mul(row, padded));
    e.forVectors(depth, e.lanes(), [&](Value begin, int64_t length) {
      storePanelVector(e.loadFirst(e.f32(), e.lanes(), length, e.at(from, e.f32(), begin)), to, begin,
                       length);
    });
    zeroTail(e, depth, padded,
             [&](Value zero, Value begin) { storePanelVector(zero, to, begin, e.lanes()); });
  });
}

void Panel::normRows(Value panel, Value rows, Value source, Value stride, const RowIndex &rowIndex,
                     const Norm &norm) {
  Type element = dot_bf16 ? e.bf16() : e.f32();
  e.loop(e.c(0), rows, 1, [&](Value row) {
    Value from = e.at(source, e.f32(), e.mul(rowIndex ? rowIndex(row) : row, stride));
    Value to = e.at(panel, element, e.mul(row, padded));
    Value emitted = norm.emit ? norm.emit(row) : Value();
    Value inverse = inverseRms(e, from, depth, norm.eps);
    Value factor = e.splat(inverse, e.lanes());
    e.forVectors(depth, e.lanes(), [&](Value begin, int64_t length) {
      Value x = e.loadFirst(e.f32(), e.lanes(), length, e.at(from, e.f32(), begin));
      Type type = e.elementType(weights);
      Value w = e.loadFirst(type, e.lanes(), length, e.at(norm.weight, type, begin), kUnaligned);
      Value y = e.mulf(e.mulf(x, factor), e.toFloat(w, e.vec(e.f32(), e.lanes())));
      storePanelVector(y, to, begin, length);
      if (emitted) {
        e.storeFirst(y, length, e.at(emitted, e.f32(), begin));
      }
    });
    zeroTail(e, depth, padded,
             [&](Value zero, Value begin) { storePanelVector(zero, to, begin, e.lanes()); });
  });
}

Values Panel::step(ArrayRef<Value> a, ArrayRef<Value> w, ValueRange acc) {
  Values next;
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t column = 0; column < w.size(); ++column) {
      Value sum = acc[row * w.size() + column];
      if (dot_bf16) {
        auto name = e.builder.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512");
        next.push_back(LLVM::CallIntrinsicOp::create(e.builder, e.loc, sum.getType(), name,
                                                     ValueRange{sum, a[row], w[column]})
                           .getResult(0));
      } else {
        next.push_back(e.fma(a[row], w[column], sum));
      }
    }
  }
  return next;
}

void Panel::tile(Value panelRow, Value weightRow, Value result, int64_t rows, int64_t columns,
                 int64_t ldResult) {
  Type aElement = dot_bf16 ? e.bf16() : e.f32();
  Type wElement = e.elementType(weights);
  Type aVector = e.vec(aElement, chunk);
  auto accumulate = [&](Value begin, int64_t length, ValueRange acc) {
    Values a, w;
    for (int64_t row = 0; row < rows; ++row) {
      a.push_back(e.load(aVector, e.at(panelRow, aElement, e.add(begin, row * padded)), 4));
    }
    for (int64_t column = 0; column < columns; ++column) {
      Value address = e.at(weightRow, wElement, e.add(begin, column * depth));
      Value raw = e.loadFirst(wElement, chunk, length, address, kUnaligned);
      w.push_back(dot_bf16 ? raw : e.toFloat(raw, aVector));
    }
    return step(a, w, acc);
  };
  Values acc(rows * columns, e.splat(0.0, e.lanes()));
  int64_t full = depth / chunk * chunk;
  if (full) {
    acc = e.loop(e.c(0), e.c(full), e.c(chunk), acc,
                 [&](Value begin, ValueRange carried) { return accumulate(begin, chunk, carried); });
  }
  if (full != depth) {
    acc = accumulate(e.c(full), depth - full, acc);
  }
  // Row by row, so that a row's sums take the same path in a tile of any height.
  for (int64_t row = 0; row < rows; ++row) {
    Value sums = reduceAdd(e, ArrayRef<Value>(acc).slice(row * columns, columns));
    e.store(sums, e.at(result, e.f32(), row * ldResult));
  }
}

void Panel::multiply(Value panel, Value rows, Value weightRows, Value columns, int64_t total, Value result,
                     int64_t ldResult) {
  int64_t group = kColumnGroup;
  while (group > total) {
    group /= 2;
  }
  Type aElement = dot_bf16 ? e.bf16() : e.f32();
  Type wElement = e.elementType(weights);
  Value groups = e.div(e.add(columns, group - 1), group);
  e.loop(e.c(0), groups, 1, [&](Value index) {
    // The last group overlaps its neighbour rather than being narrower: the overlap is computed twice to the
    // same bits.
    Value first = e.min(e.mul(index, group), e.sub(columns, group));
    Value row = e.c(0);
    for (RegisterTile shape : e.isa.tiles) {
      int64_t width = std::min(shape.columns, group);
      Value left = e.sub(rows, row);
      Value end = e.sub(rows, e.rem(left, shape.rows));
      for (int64_t part = 0; part < group; part += width) {
        Value column = e.add(first, part);
        e.loop(row, end, shape.rows, [&](Value r) {
          tile(e.at(panel, aElement, e.mul(r, padded)), e.at(weightRows, wElement, e.mul(column, depth)),
               e.at(result, e.f32(), e.add(e.mul(r, ldResult), column)), shape.rows, width, ldResult);
        });
      }
      row = end;
    }
  });
}

} // namespace smelt::codegen::cpu
