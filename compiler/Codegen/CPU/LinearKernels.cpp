// Kernels around one dense matrix product: norm_linear, linear_residual, gate_up.
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/PanelProduct.h"
#include "compiler/Codegen/CPU/VectorMath.h"

#include <algorithm>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

// Claims units of (row block, column unit). `fill` loads the rows when a worker enters another row block;
// `compute` does one unit. firstRow and rows describe the block; `column` is the unit within it, `next` that
// of the unit that follows.
void overRowBlocks(Emitter &e, KernelFrame &frame, Value rows, int64_t rowBlock, int64_t columnUnits,
                   const std::function<void(Value firstRow, Value rows, Value column)> &fill,
                   const std::function<void(Value firstRow, Value rows, Value column, Value next)> &compute) {
  Value blocks = e.div(e.add(rows, rowBlock - 1), rowBlock);
  frame.claimAhead(e.mul(blocks, columnUnits), {e.c(-1)}, [&](Value unit, Value after, ValueRange carried) {
    Value block = e.div(unit, columnUnits), column = e.rem(unit, columnUnits);
    Value first = e.mul(block, rowBlock);
    Value count = e.min(e.sub(rows, first), rowBlock);
    e.when(e.notEqual(block, carried[0]), [&] { fill(first, count, column); });
    compute(first, count, column, e.rem(after, columnUnits));
    return Values{block};
  });
}

// One weight of a concatenated projection and where its columns start.
struct Projection {
  Value weight, bias; // bias may be null
  int64_t columns, offset;
  PanelUnits units;
  int64_t firstUnit;
};

// The projection and the panels a unit of all of them stands for.
struct ProjectionUnit {
  Value weight, bias, offset, first, panels, columns;
};

ProjectionUnit selectProjection(Emitter &e, ArrayRef<Projection> projections, Value unit) {
  ProjectionUnit chosen;
  for (const Projection &p : projections) {
    Value local = e.sub(unit, p.firstUnit);
    ProjectionUnit mine{
        p.weight, p.bias, e.c(p.offset), p.units.first(e, local), p.units.panels(e, local), e.c(p.columns)};
    if (!chosen.weight) {
      chosen = mine;
      continue;
    }
    Value here = e.lessEqual(e.c(p.firstUnit), unit);
    auto pick = [&](Value ProjectionUnit::*field) {
      if (mine.*field) {
        chosen.*field = e.select(here, mine.*field, chosen.*field);
      }
    };
    for (auto field : {&ProjectionUnit::weight, &ProjectionUnit::bias, &ProjectionUnit::offset,
                       &ProjectionUnit::first, &ProjectionUnit::panels, &ProjectionUnit::columns}) {
      pick(field);
    }
  }
  return chosen;
}

// Adds the bias of a unit's columns to the rows of a block, once their products are in `out`.
void addBias(Emitter &e, const ProjectionUnit &unit, Type biasType, Value out, Value rows, int64_t width) {
  Value begin = e.mul(unit.first, kPanelColumns);
  Value end = e.min(e.mul(e.add(unit.first, unit.panels), kPanelColumns), unit.columns);
  e.loop(e.c(0), rows, 1, [&](Value row) {
    Value outRow = e.at(out, e.f32(), e.mul(row, width));
    e.loop(begin, end, 1, [&](Value column) {
      Value address = e.at(outRow, e.f32(), column);
      Value b = e.toFloat(e.load(biasType, e.at(unit.bias, biasType, column), 1));
      e.store(e.addf(e.load(e.f32(), address), b), address);
    });
  });
}

} // namespace

int64_t emitNormLinear(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t in = k.param("in"), count = k.param("outs");
  bool gather = k.param("gather"), norm = k.param("norm"), emit = k.param("emit_norm");
  RowBlock block(e, in, k.weightType());
  PanelProduct product(e, block, in, k.weightType(), 1);

  unsigned next = 0;
  Value x = frame.binding(next++);
  Value normWeight = norm ? frame.binding(next++) : Value();
  Value rowList = gather ? frame.binding(next++) : Value();
  Value xn = emit ? frame.binding(next++) : Value();
  llvm::SmallVector<Projection> projections;
  int64_t total = 0, units = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t columns = k.param("out" + std::to_string(i));
    projections.push_back({frame.binding(next++), Value(), columns, total, PanelUnits(columns, 1), units});
    total += columns;
    units += projections.back().units.count;
  }
  for (int64_t i = 0; k.param("bias") && i < count; ++i) {
    projections[i].bias = frame.binding(next++);
  }
  Value out = frame.binding(next++);
  Value rows = frame.constantInt(0), eps = frame.constantFloat(1);
  Value memory = frame.scratch();
  Value productScratch = e.at(memory, e.builder.getI8Type(), block.bytes());
  Value spareRow = e.at(productScratch, e.builder.getI8Type(), product.scratchBytes());

  auto fill = [&](Value first, Value blockRows, Value column) {
    auto rowIndex = [&](Value row) {
      Value absolute = e.add(first, row);
      return gather ? e.loadI32(rowList, absolute) : absolute;
    };
    if (!norm) {
      block.copyRows(memory, blockRows, x, e.c(in), rowIndex);
      return;
    }
    std::function<Value(Value)> emitRow;
    if (emit) {
      // Whoever claims a block's first unit publishes its normalised rows; others write to their own memory.
      emitRow = [&](Value row) {
        return e.select(e.equal(column, e.c(0)), e.at(xn, e.f32(), e.mul(e.add(first, row), in)), spareRow);
      };
    }
    block.normRows(memory, blockRows, x, e.c(in), rowIndex, {normWeight, k.vectorType(), eps, emitRow});
  };
  auto compute = [&](Value first, Value blockRows, Value column, Value after) {
    ProjectionUnit unit = selectProjection(e, projections, column);
    ProjectionUnit next = selectProjection(e, projections, after);
    Value target = e.at(out, e.f32(), e.add(e.mul(first, total), unit.offset));
    product.run({memory,
                 blockRows,
                 {unit.weight},
                 unit.first,
                 unit.panels,
                 unit.columns,
                 {product.panel(next.weight, next.first)}},
                productScratch, [&](const PanelProduct::Result &result) {
                  Value address = e.at(target, e.f32(), e.add(e.mul(result.row, total), result.column));
                  for (auto [v, sum] : llvm::enumerate(result.sums[0])) {
                    storeColumns(e, result, v, sum, address);
                  }
                });
    if (unit.bias) {
      addBias(e, unit, e.elementType(k.vectorType()), target, blockRows, total);
    }
  };
  overRowBlocks(e, frame, rows, block.capacity(), units, fill, compute);
  return block.bytes() + product.scratchBytes() + (emit ? (in * 4 + 63) / 64 * 64 : 0);
}

int64_t emitLinearResidual(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t in = k.param("in"), out = k.param("out");
  RowBlock block(e, in, k.weightType(), RowSource::matrix);
  PanelProduct product(e, block, in, k.weightType(), 1);
  PanelUnits units(out, 1);
  Value a = frame.binding(0), weight = frame.binding(1), xIn = frame.binding(2), xOut = frame.binding(3);
  Value tokens = frame.constantInt(0), scale = e.splat(frame.constantFloat(1), e.lanes());
  Value memory = frame.scratch();
  Value productScratch = e.at(memory, e.builder.getI8Type(), block.bytes());

  auto fill = [&](Value first, Value rows, Value) {
    if (!block.inPlace()) {
      block.copyRows(memory, rows, a, e.c(in), [&](Value row) { return e.add(first, row); });
    }
  };
  auto compute = [&](Value first, Value rows, Value unit, Value next) {
    product.run({block.inPlace() ? e.at(a, e.f32(), e.mul(first, in)) : memory,
                 rows,
                 {weight},
                 units.first(e, unit),
                 units.panels(e, unit),
                 e.c(out),
                 {product.panel(weight, units.first(e, next))}},
                productScratch, [&](const PanelProduct::Result &result) {
                  Value at = e.add(e.mul(e.add(first, result.row), out), result.column);
                  Value from = e.at(xIn, e.f32(), at), to = e.at(xOut, e.f32(), at);
                  for (auto [v, sum] : llvm::enumerate(result.sums[0])) {
                    storeColumns(e, result, v, e.fma(sum, scale, loadColumns(e, result, v, from)), to);
                  }
                });
  };
  overRowBlocks(e, frame, tokens, block.capacity(), units.count, fill, compute);
  return block.bytes() + product.scratchBytes();
}

int64_t emitGateUp(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t in = k.param("in"), out = k.param("out");
  bool norm = k.param("norm");
  RowBlock block(e, in, k.weightType());
  PanelProduct product(e, block, in, k.weightType(), 2);
  PanelUnits units(out, 2);
  unsigned next = 0;
  Value x = frame.binding(next++);
  Value normWeight = norm ? frame.binding(next++) : Value();
  Value gate = frame.binding(next++), up = frame.binding(next++), h = frame.binding(next++);
  Value tokens = frame.constantInt(0), eps = frame.constantFloat(1);
  Value memory = frame.scratch();
  Value productScratch = e.at(memory, e.builder.getI8Type(), block.bytes());

  auto fill = [&](Value first, Value rows, Value) {
    auto rowIndex = [&](Value row) { return e.add(first, row); };
    if (norm) {
      block.normRows(memory, rows, x, e.c(in), rowIndex, {normWeight, k.vectorType(), eps, {}});
    } else {
      block.copyRows(memory, rows, x, e.c(in), rowIndex);
    }
  };
  auto compute = [&](Value first, Value rows, Value unit, Value next) {
    Values following = {product.panel(gate, units.first(e, next)), product.panel(up, units.first(e, next))};
    product.run({memory, rows, {gate, up}, units.first(e, unit), units.panels(e, unit), e.c(out), following},
                productScratch, [&](const PanelProduct::Result &result) {
                  storeSwiglu(e, result, e.at(h, e.f32(), e.mul(e.add(first, result.row), out)));
                });
  };
  overRowBlocks(e, frame, tokens, block.capacity(), units.count, fill, compute);
  return block.bytes() + product.scratchBytes();
}

} // namespace smelt::codegen::cpu
