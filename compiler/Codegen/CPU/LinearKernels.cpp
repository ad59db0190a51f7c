// Kernels around one dense matrix product: norm_linear, linear_residual, gate_up.
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/Panel.h"

#include <algorithm>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

// Claims units of (row block, column unit). `fill` loads the panel when a worker enters another row block;
// `compute` does one unit. firstRow and rows describe the block; `column` is the unit within it.
void overRowBlocks(Emitter &e, KernelFrame &frame, Value rows, int64_t rowBlock, int64_t columnUnits,
                   const std::function<void(Value firstRow, Value rows, Value column)> &fill,
                   const std::function<void(Value firstRow, Value rows, Value column)> &compute) {
  Value blocks = e.div(e.add(rows, rowBlock - 1), rowBlock);
  frame.claim(e.mul(blocks, columnUnits), {e.c(-1)}, [&](Value unit, ValueRange carried) {
    Value block = e.div(unit, columnUnits), column = e.rem(unit, columnUnits);
    Value first = e.mul(block, rowBlock);
    Value count = e.min(e.sub(rows, first), rowBlock);
    e.when(e.notEqual(block, carried[0]), [&] { fill(first, count, column); });
    compute(first, count, column);
    return Values{block};
  });
}

// One weight of a concatenated projection and where its columns start.
struct Projection {
  Value weight, bias; // bias may be null
  int64_t columns, offset;
};

} // namespace

int64_t emitNormLinear(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t in = k.param("in"), count = k.param("outs");
  bool gather = k.param("gather"), norm = k.param("norm"), emit = k.param("emit_norm");
  Panel panel(e, in, k.weightType());
  Type wType = e.elementType(k.weightType());

  unsigned next = 0;
  Value x = frame.binding(next++);
  Value normWeight = norm ? frame.binding(next++) : Value();
  Value rowList = gather ? frame.binding(next++) : Value();
  Value xn = emit ? frame.binding(next++) : Value();
  llvm::SmallVector<Projection> projections;
  int64_t total = 0, narrowest = k.param("out0");
  for (int64_t i = 0; i < count; ++i) {
    int64_t columns = k.param("out" + std::to_string(i));
    projections.push_back({frame.binding(next++), Value(), columns, total});
    total += columns;
    narrowest = std::min(narrowest, columns);
  }
  for (int64_t i = 0; k.param("bias") && i < count; ++i) {
    projections[i].bias = frame.binding(next++);
  }
  Value out = frame.binding(next++);
  Value rows = frame.constantInt(0), eps = frame.constantFloat(1);
  Value panelMemory = frame.scratch();
  Value spareRow = e.at(panelMemory, e.builder.getI8Type(), panel.bytes());

  int64_t units = 0;
  llvm::SmallVector<int64_t> firstUnit;
  for (const Projection &p : projections) {
    firstUnit.push_back(units);
    units += ColumnUnits(p.columns).count;
  }
  auto fill = [&](Value first, Value blockRows, Value column) {
    auto rowIndex = [&](Value row) {
      Value absolute = e.add(first, row);
      return gather ? e.loadI32(rowList, absolute) : absolute;
    };
    if (!norm) {
      panel.copyRows(panelMemory, blockRows, x, e.c(in), rowIndex);
      return;
    }
    std::function<Value(Value)> emitRow;
    if (emit) {
      // Whoever claims a block's first unit publishes its normalised rows; others write to their own memory.
      emitRow = [&](Value row) {
        return e.select(e.equal(column, e.c(0)), e.at(xn, e.f32(), e.mul(e.add(first, row), in)), spareRow);
      };
    }
    panel.normRows(panelMemory, blockRows, x, e.c(in), rowIndex, {normWeight, eps, emitRow});
  };
  auto compute = [&](Value first, Value blockRows, Value column) {
    const Projection &p0 = projections[0];
    Value weight = p0.weight, bias = p0.bias, offset = e.c(p0.offset), unit = column;
    Value columns = ColumnUnits(p0.columns).columns(e, column);
    for (int64_t i = 1; i < count; ++i) {
      const Projection &p = projections[i];
      Value mine = e.lessEqual(e.c(firstUnit[i]), column);
      Value local = e.sub(column, firstUnit[i]);
      weight = e.select(mine, p.weight, weight);
      bias = bias ? e.select(mine, p.bias, bias) : bias;
      offset = e.select(mine, e.c(p.offset), offset);
      unit = e.select(mine, local, unit);
      columns = e.select(mine, ColumnUnits(p.columns).columns(e, local), columns);
    }
    Value begin = e.mul(unit, kUnitColumns);
    Value target = e.at(out, e.f32(), e.add(e.mul(first, total), e.add(offset, begin)));
    panel.multiply(panelMemory, blockRows, e.at(weight, wType, e.mul(begin, in)), columns, narrowest, target,
                   total);
    if (bias) {
      e.loop(e.c(0), blockRows, 1, [&](Value row) {
        Value outRow = e.at(target, e.f32(), e.mul(row, total));
        e.loop(e.c(0), columns, 1, [&](Value c) {
          Value address = e.at(outRow, e.f32(), c);
          Value b = e.toFloat(e.load(wType, e.at(bias, wType, e.add(begin, c)), 1), e.f32());
          e.store(e.addf(e.load(e.f32(), address), b), address);
        });
      });
    }
  };
  overRowBlocks(e, frame, rows, panel.rowBlock(), units, fill, compute);
  return panel.bytes() + (emit ? (in * 4 + 63) / 64 * 64 : 0);
}

int64_t emitLinearResidual(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t in = k.param("in"), out = k.param("out");
  Panel panel(e, in, k.weightType());
  ColumnUnits units(out);
  Type wType = e.elementType(k.weightType());
  Value a = frame.binding(0), weight = frame.binding(1), xIn = frame.binding(2), xOut = frame.binding(3);
  Value tokens = frame.constantInt(0), scale = frame.constantFloat(1);
  Value panelMemory = frame.scratch();
  Value product = e.at(panelMemory, e.builder.getI8Type(), panel.bytes());

  auto fill = [&](Value first, Value rows, Value) {
    panel.copyRows(panelMemory, rows, a, e.c(in), [&](Value row) { return e.add(first, row); });
  };
  auto compute = [&](Value first, Value rows, Value unit) {
    Value begin = units.begin(e, unit), columns = units.columns(e, unit);
    panel.multiply(panelMemory, rows, e.at(weight, wType, e.mul(begin, in)), columns, out, product,
                   units.widest);
    e.loop(e.c(0), rows, 1, [&](Value row) {
      Value position = e.add(e.mul(e.add(first, row), out), begin);
      addScaledRow(e, e.at(product, e.f32(), e.mul(row, units.widest)), e.at(xIn, e.f32(), position),
                   e.at(xOut, e.f32(), position), columns, scale);
    });
  };
  overRowBlocks(e, frame, tokens, panel.rowBlock(), units.count, fill, compute);
  return panel.bytes() + panel.rowBlock() * units.widest * 4;
}

int64_t emitGateUp(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t in = k.param("in"), out = k.param("out");
  bool norm = k.param("norm");
  Panel panel(e, in, k.weightType());
  ColumnUnits units(out);
  Type wType = e.elementType(k.weightType());
  unsigned next = 0;
  Value x = frame.binding(next++);
  Value normWeight = norm ? frame.binding(next++) : Value();
  Value gate = frame.binding(next++), up = frame.binding(next++), h = frame.binding(next++);
  Value tokens = frame.constantInt(0), eps = frame.constantFloat(1);
  int64_t productBytes = panel.rowBlock() * units.widest * 4;
  Value panelMemory = frame.scratch();
  Value gateProduct = e.at(panelMemory, e.builder.getI8Type(), panel.bytes());
  Value upProduct = e.at(gateProduct, e.builder.getI8Type(), productBytes);

  auto fill = [&](Value first, Value rows, Value) {
    auto rowIndex = [&](Value row) { return e.add(first, row); };
    if (norm) {
      panel.normRows(panelMemory, rows, x, e.c(in), rowIndex, {normWeight, eps, {}});
    } else {
      panel.copyRows(panelMemory, rows, x, e.c(in), rowIndex);
    }
  };
  auto compute = [&](Value first, Value rows, Value unit) {
    Value begin = units.begin(e, unit), columns = units.columns(e, unit);
    Value offset = e.mul(begin, in);
    panel.multiply(panelMemory, rows, e.at(gate, wType, offset), columns, out, gateProduct, units.widest);
    panel.multiply(panelMemory, rows, e.at(up, wType, offset), columns, out, upProduct, units.widest);
    e.loop(e.c(0), rows, 1, [&](Value row) {
      Value at = e.mul(row, units.widest);
      swigluRow(e, e.at(gateProduct, e.f32(), at), e.at(upProduct, e.f32(), at),
                e.at(h, e.f32(), e.add(e.mul(e.add(first, row), out), begin)), columns);
    });
  };
  overRowBlocks(e, frame, tokens, panel.rowBlock(), units.count, fill, compute);
  return panel.bytes() + 2 * productBytes;
}

} // namespace smelt::codegen::cpu
