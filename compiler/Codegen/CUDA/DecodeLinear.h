// Products of short steps that are kernels of their own, and parts of others.
#pragma once

#include "compiler/Codegen/CUDA/DecodeGemv.h"

namespace smelt::codegen::cuda {

// x_out = x_in + scale * W x, by grid() blocks.
class LinearResidual {
public:
  struct Arguments {
    Value x;         // f32[T, in]
    Value weight;    // bf16[out, in]
    Value xIn, xOut; // f32[T, out], may be the same
    Value scale;
  };
  // `rows` of a warp; 0: as many as serve the shape best.
  LinearResidual(int64_t in, int64_t out, int64_t rows = 0);
  GridSize grid() const { return {.fixed = (out + shape.rows - 1) / shape.rows, .divisor = shape.warps}; }
  int64_t blocks() const { return (grid().fixed + shape.warps - 1) / shape.warps; }
  // The code of block `block`; T is the first constant.
  void emit(Emitter &e, StageFrame &frame, Value block, const Arguments &arguments) const;

  GemvShape shape;

private:
  int64_t in, out;
};

// h = silu(gate x) * (up x), by grid() blocks.
class GateUp {
public:
  struct Arguments {
    Value gate, up; // bf16[out, in]
    Value h;        // f32[T, out]
  };
  GateUp(int64_t in, int64_t out);
  GridSize grid() const { return {.fixed = (out + features - 1) / features, .divisor = shape.warps}; }
  int64_t blocks() const { return (grid().fixed + shape.warps - 1) / shape.warps; }
  void emit(Emitter &e, StageFrame &frame, Value block, const GemvInput &input,
            const Arguments &arguments) const;

private:
  int64_t features; // of a warp: a gate row and an up row each

public:
  GemvShape shape;

private:
  int64_t in, out;
};

} // namespace smelt::codegen::cuda
