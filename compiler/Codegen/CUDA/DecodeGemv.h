// Matrix-vector products of short steps: what every dense kernel for at most 8 tokens is made of.
//
// A warp owns a few rows of the matrix and reads them once, for all tokens: a step is 32 lanes x 8 columns,
// 512 contiguous bytes of a row, and 8 loads of a lane are in flight at any time, the first ones before the
// activations are looked at. These are f32 in shared memory, staged by the whole block, one block of columns
// after another where a row is long. Code is specialised for 1, 2 and 4 tokens; more take two turns. A
// token's result is the same to the last bit in all of them, since the columns of a lane, and the order it
// adds them in, do not depend on the number of tokens.
#pragma once

#include "compiler/Codegen/CUDA/Kernels.h"

namespace smelt::codegen::cuda {

struct GemvShape {
  int64_t in = 0;    // columns
  int64_t rows = 1;  // that a warp multiplies at once
  int64_t warps = 4; // of a block, which all multiply the same activations
  bool stepwise =
      false; // ptxas may not read activations of a step ahead: for kernels that are short of registers

  int64_t threads() const { return warps * WARP; }
};

// The activations, f32[tokens, in].
struct GemvInput {
  Value x;
  Value tokens;           // at most SHORT_STEP_TOKENS, at least 1
  Value gather = nullptr; // i32[tokens]: the row of x of each token; null: row t
  Value norm = nullptr; // bf16[in]: multiply by the weight, and by the inverse RMS at the end; null: no norm
  Value epsilon = nullptr; // with a norm
};

class Gemv {
public:
  Gemv(Emitter &e, StageFrame &frame, const GemvShape &shape, const GemvInput &input);

  // body(n) once for each number of tokens n that code is made for, under the branch that picks it; returns
  // what the branch yields.
  Values forTokenCount(const std::function<Values(int64_t n)> &body);

  // The first loads of the rows at these addresses (of this warp; as many as shape.rows).
  Values prefetch(ValueRange rows);
  // The products of these rows, whose first loads are under way, with every token's activations: element r,
  // in lane t, is that of row r and token t. Lanes beyond the tokens repeat the last. All threads of the
  // block must come here. `restage`: the block has multiplied before.
  Values multiply(int64_t n, ValueRange rows, Values ring, bool restage = false);
  // Both for one group of rows a warp; `early` starts loads that the end needs, after those of the rows.
  Values multiply(ValueRange rows, const std::function<void()> &early = {}) {
    Values ring = prefetch(rows);
    if (early) {
      early();
    }
    return forTokenCount([&](int64_t n) { return multiply(n, rows, ring); });
  }
  // Whether multiply() has nothing left to stage after the first time.
  bool staysStaged(int64_t n) const;

  // The token whose results this lane takes (the last one in lanes beyond), and whether it has one of its
  // own.
  Value laneToken() { return e.min(e.lane(), e.sub(input.tokens, 1)); }
  Value laneActive() { return e.less(e.lane(), input.tokens); }
  // 1 / sqrt(mean(x^2) + eps) of a token; only after multiply(), with a norm.
  Value inverseRms(Value token);

private:
  int64_t steps() const;         // of a row
  int64_t stepsPerBlock() const; // of staged columns
  int64_t depth() const;         // steps of every row in flight
  int64_t planeBytes() const;
  Value xRow(Value token);
  Values loadStep(ValueRange rows, Value first, int64_t step, int64_t known);
  // multiply() of tokens firstToken to firstToken + n - 1, n at most GROUP.
  // `again`: something was staged before. `reuse`: what is staged is what is wanted.
  Values multiplyGroup(int64_t n, int64_t firstToken, ValueRange rows, Values ring, bool again, bool reuse);
  void stage(int64_t n, int64_t firstToken, Value firstStep, int64_t count, bool whole, Values &squares);
  void storeSquares(int64_t n, int64_t firstToken, ValueRange squares);
  void accumulate(int64_t n, int64_t stepInBlock, ValueRange words, Values &sums);
  Values reduce(int64_t n, int64_t firstToken, ValueRange sums);

  Emitter &e;
  GemvShape shape;
  GemvInput input;
  Value staged, squaresBase;
};

// The normalised activations themselves, f32[tokens, in]: each of the first `blocks` blocks along x writes a
// share. After multiply(); without gather.
void storeNormalised(Emitter &e, Gemv &gemv, const GemvInput &input, int64_t in, int64_t threads, Value out,
                     Value blocks);

} // namespace smelt::codegen::cuda
