#include "compiler/Codegen/CPU/PanelProduct.h"

#include "compiler/Codegen/CPU/VectorMath.h"

#include <algorithm>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {
constexpr unsigned kPanelAlignment = 64;
// Panels a unit has at most, of all matrices together: as many as the tile of one row reads at once, so that
// decoding streams them all.
constexpr int64_t kUnitPanels = 8;
// Units a matrix is cut into at least, if it has the panels: workers that finish early find another.
constexpr int64_t kFewestUnits = 4;
// Lines of weights that a tile has under way while it reads its panels, all of them together: several times
// the misses a core has at once, as its own prefetcher starts anew at every panel and page.
constexpr int64_t kLinesAhead = 64;
constexpr int64_t kLine = 64; // bytes
// Tiles of so few rows have no instruction to spare: where they read ahead changes from one loop to another,
// not from one turn of a loop to the next.
constexpr int64_t kMostRowsInTwoLoops = 2;
} // namespace

int64_t panelCount(int64_t columns) { return (columns + kPanelColumns - 1) / kPanelColumns; }

PanelUnits::PanelUnits(int64_t columns, int64_t matrices) : total(panelCount(columns)) {
  // Tall tiles are two panels wide.
  granule = std::max<int64_t>(1, 2 / matrices);
  granules = (total + granule - 1) / granule;
  int64_t widest = kUnitPanels / matrices / granule;
  count = std::max((granules + widest - 1) / widest, std::min(granules, kFewestUnits));
}

// The first granules % count units have one granule more than the others.
Value PanelUnits::first(Emitter &e, Value unit) const {
  Value longer = e.min(unit, granules % count);
  return e.mul(e.add(e.mul(unit, granules / count), longer), granule);
}

Value PanelUnits::panels(Emitter &e, Value unit) const {
  Value longer = e.select(e.less(unit, granules % count), e.c(1), e.c(0));
  Value mine = e.mul(e.add(longer, granules / count), granule);
  return e.min(mine, e.sub(e.c(total), first(e, unit)));
}

PanelProduct::PanelProduct(Emitter &e, const RowBlock &rows, int64_t k, WeightType weights, int64_t matrices,
                           RowCounts counts)
    : e(e), rows(rows), depth(k), weights(weights), matrices(matrices),
      shapes(e.isa.weightTiles(weights, counts)), k_step(weights == WeightType::i8     ? kQuantBlock
                                                         : weights == WeightType::bf16 ? 2
                                                                                       : 1) {}

int64_t PanelProduct::panelBytes() const {
  return weights == WeightType::i8 ? QuantPanels(e, rows, depth).panelBytes() : steps() * kPanelColumns * 4;
}

int64_t PanelProduct::scratchBytes() const {
  return matrices > shapes.front().panels ? (matrices - 1) * shapes.front().rows * kPanelColumns * 4 : 0;
}

void PanelProduct::run(const Operands &operands, Value scratch, const Epilogue &epilogue) {
  Value row = e.c(0);
  const RegisterTile *tallest = llvm::find_if(shapes, [](const RegisterTile &tile) { return !tile.alone; });
  for (const RegisterTile &shape : shapes) {
    Value end = shape.alone ? e.select(e.equal(operands.rows, e.c(shape.rows)), operands.rows, row)
                            : e.sub(operands.rows, e.rem(e.sub(operands.rows, row), shape.rows));
    int64_t width = std::max<int64_t>(1, shape.panels / matrices);
    // The tallest tiles read ahead together; they come first.
    bool shared = &shape == tallest;
    e.when(e.less(row, end), [&] {
      Value perRow = e.div(e.c(width * panelBytes()), end);
      e.loop(e.c(0), operands.panels, width, [&](Value panel) {
        Values next = panelsAfter(operands, e.add(panel, width));
        e.loop(row, end, shape.rows, [&](Value r) {
          ReadAhead ahead;
          if (shared) {
            ahead.pace = e.div(e.add(e.mul(perRow, shape.rows), steps() - 1), steps());
            ahead.period = e.max(e.div(e.c(kLine), e.max(ahead.pace, 1)), 1);
          }
          for (Value address : next) {
            Value read = shared ? e.mul(perRow, r) : e.c(0);
            ahead.addresses.push_back(e.at(address, e.builder.getI8Type(), read));
          }
          tile(operands, scratch, r, panel, shape, ahead, epilogue);
        });
      });
    });
    row = end;
  }
}

// By matrix: panel `next` of the unit, or what follows the unit.
Values PanelProduct::panelsAfter(const Operands &operands, Value next) {
  Value offset = e.mul(e.add(operands.first, next), panelBytes());
  Value inside = e.less(next, operands.panels);
  Values addresses;
  for (auto [matrix, following] : llvm::zip_equal(operands.matrices, operands.following)) {
    Value own = e.at(matrix, e.builder.getI8Type(), offset);
    addresses.push_back(e.select(inside, own, following));
  }
  return addresses;
}

void PanelProduct::tile(const Operands &operands, Value scratch, Value row, Value panel,
                        const RegisterTile &shape, const ReadAhead &ahead, const Epilogue &epilogue) {
  int64_t width = std::max<int64_t>(1, shape.panels / matrices), per = vectors();
  // Panels past the unit's last one stand for that one again, and nothing of theirs is stored.
  llvm::SmallVector<Values, 2> addresses(matrices);
  Values columns;
  for (int64_t i = 0; i < width; ++i) {
    Value wanted = e.add(panel, i);
    Value index = e.add(operands.first, e.min(wanted, e.sub(operands.panels, e.c(1))));
    for (int64_t m = 0; m < matrices; ++m) {
      addresses[m].push_back(e.at(operands.matrices[m], e.builder.getI8Type(), e.mul(index, panelBytes())));
    }
    Value left = e.sub(operands.columns, e.mul(e.add(operands.first, wanted), kPanelColumns));
    columns.push_back(i == 0 ? left : e.select(e.less(wanted, operands.panels), left, e.c(0)));
  }
  Value rowAddress = e.at(operands.block, rows.holdsBf16() ? e.bf16() : e.f32(), e.mul(row, rows.stride()));
  bool together = shape.panels >= matrices;
  Values all;
  auto scratchAt = [&](int64_t m, int64_t r, int64_t v) {
    return e.at(scratch, e.f32(), (m * shape.rows + r) * kPanelColumns + v * e.lanes());
  };
  if (together) {
    Values pointers;
    for (const Values &of : addresses) {
      pointers.append(of);
    }
    all = accumulate(rowAddress, shape.rows, pointers, ahead);
  } else {
    for (int64_t m = 0; m < matrices; ++m) {
      ReadAhead own = ahead.pace ? ahead : ReadAhead{{ahead.addresses[m]}, {}, {}};
      Values sums = accumulate(rowAddress, shape.rows, addresses[m], own);
      for (int64_t r = 0; m + 1 < matrices && r < shape.rows; ++r) {
        for (int64_t v = 0; v < per; ++v) {
          e.store(sums[r * per + v], scratchAt(m, r, v));
        }
      }
      all = sums;
    }
  }
  int64_t pointers = together ? width * matrices : width;
  for (int64_t i = 0; i < width; ++i) {
    Value column = e.mul(e.add(operands.first, e.add(panel, i)), kPanelColumns);
    auto emitRows = [&](Value left) {
      for (int64_t r = 0; r < shape.rows; ++r) {
        Result result{e.add(row, r), column, left, {}};
        for (int64_t m = 0; m < matrices; ++m) {
          Values sums;
          for (int64_t v = 0; v < per; ++v) {
            sums.push_back(together || m + 1 == matrices
                               ? all[(r * pointers + (together ? m * width : 0) + i) * per + v]
                               : e.load(e.vec(e.f32(), e.lanes()), scratchAt(m, r, v)));
          }
          result.sums.push_back(sums);
        }
        epilogue(result);
      }
    };
    if (e.isa.masked_stores) {
      emitRows(columns[i]);
      continue;
    }
    e.choose(
        e.less(columns[i], kPanelColumns), [&] { return emitRows(columns[i]), Values(); },
        [&] { return emitRows(Value()), Values(); });
  }
}

Values PanelProduct::accumulate(Value rowAddress, int64_t rowCount, ArrayRef<Value> panels,
                                const ReadAhead &ahead) {
  // By pointer: the panel in its place in the next tile.
  Values following;
  int64_t width = panels.size() / ahead.addresses.size();
  for (Value first : ahead.addresses) {
    for (int64_t i = 0; i < width; ++i) {
      following.push_back(e.at(first, e.builder.getI8Type(), i * panelBytes()));
    }
  }
  if (weights == WeightType::i8) {
    QuantPanels::Tile tile{rowAddress, rowCount, panels, {}, following};
    if (ahead.pace) {
      tile.readAhead = [&](Value block) { readAhead(ahead, block, ahead.pace); };
    }
    return QuantPanels(e, rows, depth).multiply(tile);
  }
  return ahead.pace ? accumulateShared(rowAddress, rowCount, panels, ahead)
                    : accumulateAlone(rowAddress, rowCount, panels, following);
}

void PanelProduct::readAhead(const ReadAhead &ahead, Value step, Value bytes) {
  Type byte = e.builder.getI8Type();
  for (Value address : ahead.addresses) {
    Value from = e.at(address, byte, e.mul(step, ahead.pace));
    e.loop(e.c(0), bytes, kLine, [&](Value offset) { e.prefetch(e.at(from, byte, offset)); });
  }
}

Values PanelProduct::accumulateShared(Value rowAddress, int64_t rowCount, ArrayRef<Value> panels,
                                      const ReadAhead &ahead) {
  // A line that is under way already is not asked for again: that would take the place of a miss.
  Value bytes = e.mul(ahead.pace, ahead.period), all = e.c(steps());
  Values sums = zeros(rowCount * panels.size() * vectors());
  return e.loop(e.c(0), all, ahead.period, sums, [&](Value begin, ValueRange carried) {
    readAhead(ahead, begin, bytes);
    Value end = e.min(e.add(begin, ahead.period), all);
    return multiplySteps(rowAddress, rowCount, panels, begin, end, {}, carried);
  });
}

Values PanelProduct::accumulateAlone(Value rowAddress, int64_t rowCount, ArrayRef<Value> panels,
                                     ArrayRef<Value> following) {
  int64_t far = std::max<int64_t>(1, kLinesAhead / static_cast<int64_t>(panels.size()));
  int64_t last = std::max<int64_t>(0, steps() - far);
  Type byte = e.builder.getI8Type();
  Values own, others, sums = zeros(rowCount * panels.size() * vectors());
  for (auto [panel, next] : llvm::zip_equal(panels, following)) {
    own.push_back(e.at(panel, byte, far * kLine));
    others.push_back(e.at(next, byte, -last * kLine));
  }
  Value middle = e.c(last), all = e.c(steps());
  if (rowCount <= kMostRowsInTwoLoops) {
    Values before = multiplySteps(rowAddress, rowCount, panels, e.c(0), middle, own, sums);
    return multiplySteps(rowAddress, rowCount, panels, middle, all, others, before);
  }
  return e.loop(e.c(0), e.c(2), e.c(1), sums, [&](Value part, ValueRange carried) {
    Value first = e.equal(part, e.c(0));
    Values read;
    for (auto [mine, other] : llvm::zip_equal(own, others)) {
      read.push_back(e.select(first, mine, other));
    }
    Value begin = e.select(first, e.c(0), middle), end = e.select(first, middle, all);
    return multiplySteps(rowAddress, rowCount, panels, begin, end, read, carried);
  });
}

// Steps [begin, end), each of which first brings in a line of each of `read`; the first of them is that of
// step 0.
Values PanelProduct::multiplySteps(Value rowAddress, int64_t rowCount, ArrayRef<Value> panels, Value begin,
                                   Value end, ArrayRef<Value> read, ValueRange init) {
  return e.loop(begin, end, e.c(1), init, [&](Value k, ValueRange carried) {
    Values next(carried);
    for (Value address : read) {
      e.prefetchNear(e.at(address, e.builder.getI8Type(), e.mul(k, kLine)));
    }
    step(rowAddress, rowCount, panels, k, next);
    return next;
  });
}

void PanelProduct::step(Value rowAddress, int64_t rowCount, ArrayRef<Value> panels, Value k, Values &sums) {
  int64_t per = vectors(), parts = rows.holdsBf16() ? 1 : k_step;
  Type line = e.vec(e.f32(), kPanelColumns);
  // By panel and vector: `parts` vectors of weights.
  llvm::SmallVector<Values> w;
  for (Value panel : panels) {
    Value address = e.at(panel, line, k);
    for (int64_t v = 0; v < per; ++v) {
      w.push_back(weightVectors(e.at(address, e.f32(), v * e.lanes())));
    }
  }
  for (int64_t r = 0; r < rowCount; ++r) {
    Values a = broadcast(e.at(rowAddress, rows.holdsBf16() ? e.bf16() : e.f32(), r * rows.stride()), k);
    for (size_t i = 0; i < w.size(); ++i) {
      Value &sum = sums[r * w.size() + i];
      for (int64_t part = 0; part < parts; ++part) {
        sum = multiplyAdd(a[part], w[i][part], sum);
      }
    }
  }
}

// The weights of one step for a vector of columns: one vector for each k, or one of pairs for VDPBF16PS.
Values PanelProduct::weightVectors(Value address) {
  if (weights == WeightType::f32) {
    return {e.load(e.vec(e.f32(), e.lanes()), address, kPanelAlignment / vectors())};
  }
  if (rows.holdsBf16()) {
    return {e.load(e.vec(e.bf16(), 2 * e.lanes()), address, kPanelAlignment)};
  }
  // A bf16 is the upper half of the f32 of equal value.
  auto words = VectorType::get({e.lanes()}, e.builder.getI32Type());
  auto constant = [&](int32_t bits) -> Value {
    return arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(words, bits));
  };
  Value pairs = e.load(words, address, kPanelAlignment / vectors());
  Value even = arith::ShLIOp::create(e.builder, e.loc, pairs, constant(16));
  Value odd = arith::AndIOp::create(e.builder, e.loc, pairs, constant(static_cast<int32_t>(0xffff0000)));
  Type type = e.vec(e.f32(), e.lanes());
  return {arith::BitcastOp::create(e.builder, e.loc, type, even),
          arith::BitcastOp::create(e.builder, e.loc, type, odd)};
}

Values PanelProduct::broadcast(Value rowAddress, Value k) {
  if (rows.holdsBf16()) {
    Value pair = e.load(e.i32(), e.at(rowAddress, e.i32(), k));
    Value words = e.splat(pair, e.lanes());
    return {LLVM::BitcastOp::create(e.builder, e.loc, e.vec(e.bf16(), 2 * e.lanes()), words)};
  }
  Values a;
  for (int64_t part = 0; part < k_step; ++part) {
    Value address = e.at(rowAddress, e.f32(), e.add(e.mul(k, k_step), part));
    a.push_back(e.splat(e.load(e.f32(), address), e.lanes()));
  }
  return a;
}

Value PanelProduct::multiplyAdd(Value a, Value w, Value sum) {
  if (!rows.holdsBf16()) {
    return e.fma(a, w, sum);
  }
  auto name = e.builder.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512");
  return LLVM::CallIntrinsicOp::create(e.builder, e.loc, sum.getType(), name, ValueRange{sum, a, w})
      .getResult(0);
}

namespace {
Value columnMask(Emitter &e, const PanelProduct::Result &result, int64_t vector) {
  return e.lanesBelow(e.sub(result.columns, vector * e.lanes()), e.lanes());
}
} // namespace

Value loadColumns(Emitter &e, const PanelProduct::Result &result, int64_t vector, Value address) {
  Type type = e.vec(e.f32(), e.lanes());
  Value at = e.at(address, e.f32(), vector * e.lanes());
  return result.columns ? e.loadMasked(type, at, columnMask(e, result, vector)) : e.load(type, at);
}

void storeColumns(Emitter &e, const PanelProduct::Result &result, int64_t vector, Value value,
                  Value address) {
  Value at = e.at(address, e.f32(), vector * e.lanes());
  if (result.columns) {
    e.storeMasked(value, at, columnMask(e, result, vector));
  } else {
    e.store(value, at);
  }
}

void storeSwiglu(Emitter &e, const PanelProduct::Result &result, Value h) {
  Value address = e.at(h, e.f32(), result.column);
  for (auto [v, gate] : llvm::enumerate(result.sums[0])) {
    storeColumns(e, result, v, e.mulf(silu(e, gate), result.sums[1][v]), address);
  }
}

} // namespace smelt::codegen::cpu
