// Dense projections of short steps.
#include "compiler/Codegen/CUDA/DecodeLinear.h"
#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <algorithm>

namespace smelt::codegen::cuda {

namespace {

// Rows a warp multiplies at once: one while the matrix hardly fills the device, more to reuse activations.
int64_t rowsPerWarp(int64_t rows) { return rows <= 1024 ? 1 : rows <= 16384 ? 2 : 4; }

// One of the matrices a kernel multiplies by: its groups of rows follow those of the matrix before.
struct Matrix {
  unsigned binding;
  int64_t rows;
  int64_t firstGroup, firstColumn; // of the result
  int bias = -1;                   // binding
};

// The group of rows this warp works on. Neighbouring warps of a block take neighbouring groups.
Value warpGroup(Emitter &e, int64_t warps) { return e.add(e.mul(e.block(0), warps), e.warp()); }

GridSize gridOf(int64_t groups, int64_t warps) { return {.fixed = groups, .divisor = warps}; }

// picks(m) for the matrix whose groups `group` lies in.
Value pick(Emitter &e, const std::vector<Matrix> &matrices, Value group,
           const std::function<Value(const Matrix &)> &picks) {
  Value value = picks(matrices[0]);
  for (size_t i = 1; i < matrices.size(); ++i) {
    value = e.select(e.less(group, matrices[i].firstGroup), value, picks(matrices[i]));
  }
  return value;
}

} // namespace

void emitNormLinearShort(KernelBuilder &kernel) {
  int64_t in = kernel.param("in"), outs = kernel.param("outs");
  bool norm = kernel.has("norm"), gather = kernel.has("gather"), emitNorm = kernel.has("emit_norm");
  bool bias = kernel.has("bias");
  const int64_t widths[] = {kernel.param("out0"), kernel.param("out1"), kernel.param("out2")};
  int64_t width = widths[0] + widths[1] + widths[2];

  unsigned next = 1;
  unsigned normBinding = norm ? next++ : 0, gatherBinding = gather ? next++ : 0;
  unsigned normedBinding = emitNorm ? next++ : 0;
  GemvShape shape{.in = in, .rows = rowsPerWarp(width)};
  std::vector<Matrix> matrices;
  int64_t groups = 0, column = 0;
  for (int64_t i = 0; i < outs; ++i) {
    matrices.push_back({next++, widths[i], groups, column});
    groups += (widths[i] + shape.rows - 1) / shape.rows;
    column += widths[i];
  }
  for (int64_t i = 0; bias && i < outs; ++i) {
    matrices[i].bias = static_cast<int>(next++);
  }
  unsigned out = next++;
  kernel.parameters(next, 2);

  StageShape launch{.x = gridOf(groups, shape.warps), .threads = shape.threads()};
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) {
    Value tokens = frame.constantInt(0);
    GemvInput input{.x = frame.binding(0), .tokens = tokens};
    if (norm) {
      input.norm = frame.binding(normBinding);
      input.epsilon = frame.constantFloat(1);
    }
    if (gather) {
      input.gather = frame.binding(gatherBinding);
    }
    Gemv gemv(e, frame, shape, input);
    Value group = e.min(warpGroup(e, shape.warps), groups - 1);
    Value firstGroup = pick(e, matrices, group, [&](const Matrix &m) { return e.c(m.firstGroup); });
    Value rows = pick(e, matrices, group, [&](const Matrix &m) { return e.c(m.rows); });
    Value weight = pick(e, matrices, group, [&](const Matrix &m) { return frame.binding(m.binding); });
    Value resultColumn = pick(e, matrices, group, [&](const Matrix &m) { return e.c(m.firstColumn); });
    Value firstRow = e.mul(e.sub(group, firstGroup), shape.rows);
    Values addresses, rowNumbers;
    for (int64_t r = 0; r < shape.rows; ++r) {
      rowNumbers.push_back(e.add(firstRow, r));
      Value row = e.min(rowNumbers.back(), e.sub(rows, 1));
      addresses.push_back(e.row(weight, e.bf16(), row, rowStride(in)));
    }
    Values results = gemv.multiply(addresses);
    Value token = gemv.laneToken();
    Value result = e.row(frame.binding(out), e.f32(), token, width);
    Value active = e.both(gemv.laneActive(), e.less(warpGroup(e, shape.warps), groups));
    for (int64_t r = 0; r < shape.rows; ++r) {
      e.when(e.both(active, e.less(rowNumbers[r], rows)), [&] {
        Value value = results[r];
        if (bias) {
          Value base = pick(e, matrices, group, [&](const Matrix &m) { return frame.binding(m.bias); });
          value = e.addf(value, e.readBf16(base, rowNumbers[r]));
        }
        e.storeF32(value, result, e.add(resultColumn, rowNumbers[r]));
      });
    }
    if (emitNorm) {
      storeNormalised(e, gemv, input, in, shape.threads(), frame.binding(normedBinding), e.blocks(0));
    }
  });
}

void storeNormalised(Emitter &e, Gemv &gemv, const GemvInput &input, int64_t in, int64_t threads, Value out,
                     Value blocks) {
  // Every block takes its share of the columns.
  Value first = e.add(e.mul(e.block(0), threads), e.thread());
  e.loop(e.c(0), input.tokens, 1, [&](Value token) {
    Value inverse = gemv.inverseRms(token);
    Value x = e.row(input.x, e.f32(), token, in), y = e.row(out, e.f32(), token, in);
    e.loop(first, e.c(in), e.mul(blocks, threads), [&](Value column) {
      Value value = e.mulf(e.mulf(e.readF32(x, column), inverse), e.readBf16(input.norm, column));
      e.storeF32(value, y, column);
    });
  });
}

LinearResidual::LinearResidual(int64_t in, int64_t out, int64_t rows)
    : shape{.in = in, .rows = rows ? rows : rowsPerWarp(out)}, in(in), out(out) {}

void LinearResidual::emit(Emitter &e, StageFrame &frame, Value block, const Arguments &arguments) const {
  GemvInput input{.x = arguments.x, .tokens = frame.constantInt(0)};
  Gemv gemv(e, frame, shape, input);
  Value token = gemv.laneToken(), active = gemv.laneActive();
  Value xIn = e.row(arguments.xIn, e.f32(), token, out);
  Value firstRow = e.mul(e.add(e.mul(block, shape.warps), e.warp()), shape.rows);
  Values addresses, before;
  for (int64_t r = 0; r < shape.rows; ++r) {
    Value row = e.min(e.add(firstRow, r), out - 1);
    addresses.push_back(e.row(arguments.weight, e.bf16(), row, rowStride(in)));
  }
  Values results = gemv.multiply(addresses, [&] {
    for (int64_t r = 0; r < shape.rows; ++r) { // nobody else writes these elements
      before.push_back(e.loadF32(xIn, e.min(e.add(firstRow, r), out - 1)));
    }
  });
  Value xOut = e.row(arguments.xOut, e.f32(), token, out);
  for (int64_t r = 0; r < shape.rows; ++r) {
    Value row = e.add(firstRow, r);
    e.when(e.both(active, e.less(row, out)),
           [&] { e.storeF32(e.fma(results[r], arguments.scale, before[r]), xOut, row); });
  }
}

void emitLinearResidualShort(KernelBuilder &kernel) {
  // Only measurements of the choice force it (tests/gpu).
  int64_t rows = kernel.has("rows_per_warp") ? kernel.param("rows_per_warp") : 0;
  LinearResidual product(kernel.param("in"), kernel.param("out"), rows);
  kernel.parameters(4, 2);
  StageShape launch{.x = product.grid(), .threads = product.shape.threads()};
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) {
    product.emit(e, frame, e.block(0),
                 {.x = frame.binding(0),
                  .weight = frame.binding(1),
                  .xIn = frame.binding(2),
                  .xOut = frame.binding(3),
                  .scale = frame.constantFloat(1)});
  });
}

GateUp::GateUp(int64_t in, int64_t out)
    : features(rowsPerWarp(2 * out) > 1 ? 2 : 1), shape{.in = in, .rows = 2 * features}, in(in), out(out) {}

void GateUp::emit(Emitter &e, StageFrame &frame, Value block, const GemvInput &input,
                  const Arguments &arguments) const {
  Gemv gemv(e, frame, shape, input);
  Value first = e.mul(e.add(e.mul(block, shape.warps), e.warp()), features);
  Values addresses;
  for (int64_t f = 0; f < features; ++f) {
    Value row = e.min(e.add(first, f), out - 1);
    addresses.push_back(e.row(arguments.gate, e.bf16(), row, rowStride(in)));
    addresses.push_back(e.row(arguments.up, e.bf16(), row, rowStride(in)));
  }
  Values results = gemv.multiply(addresses);
  Value h = e.row(arguments.h, e.f32(), gemv.laneToken(), out);
  Value active = gemv.laneActive();
  for (int64_t f = 0; f < features; ++f) {
    Value feature = e.add(first, f);
    e.when(e.both(active, e.less(feature, out)),
           [&] { e.storeF32(e.mulf(e.silu(results[2 * f]), results[2 * f + 1]), h, feature); });
  }
}

void emitGateUpShort(KernelBuilder &kernel) {
  GateUp product(kernel.param("in"), kernel.param("out"));
  bool norm = kernel.has("norm");
  unsigned gate = norm ? 2 : 1;
  kernel.parameters(gate + 3, 2);
  StageShape launch{.x = product.grid(), .threads = product.shape.threads()};
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) {
    GemvInput input{.x = frame.binding(0), .tokens = frame.constantInt(0)};
    if (norm) {
      input.norm = frame.binding(1);
      input.epsilon = frame.constantFloat(1);
    }
    product.emit(e, frame, e.block(0), input,
                 {.gate = frame.binding(gate), .up = frame.binding(gate + 1), .h = frame.binding(gate + 2)});
  });
}

} // namespace smelt::codegen::cuda
