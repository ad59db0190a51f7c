// Arithmetic that kernels share: reductions in a fixed order and the exponential family.
//
// Every reduction of a register adds lane i to lane i + width/2, then halves the width: the same tree
// wherever it is used, so that a sum has the same bits in a tile of one row and in a tile of four.
#pragma once

#include "compiler/Codegen/CPU/Emitter.h"

namespace smelt::codegen::cpu {

// Reduces each vector of `items` to one lane; the result holds item i in lane i. Their number is a power of
// two and at most that of their lanes.
Value reduceAdd(Emitter &e, llvm::ArrayRef<Value> items);

// The sum or maximum of one vector's lanes, as a scalar.
Value sumLanes(Emitter &e, Value vector);
Value maxLanes(Emitter &e, Value vector);

// 1 / sqrt(mean(x^2) + eps) over `count` f32 at `x`, as a scalar.
Value inverseRms(Emitter &e, Value x, int64_t count, Value eps);

// exp of a vector of f32, within 2 ulp on [-87.3, 88.7]; smaller arguments give exp(-87.3), larger exp(88.7).
Value exp(Emitter &e, Value x);

// 2^x of a vector of f32 that are at most 0, within 1.5 ulp; 2^0 is 1, and x < -125.5 gives 0.
Value exp2OfNonPositive(Emitter &e, Value x);

// f32 rounded to bf16, to the nearest and ties to even, and widened again: the lower half of each result is
// zero. A NaN stays one.
Value roundToBf16(Emitter &e, Value x);

// 1 / (1 + exp(-x)) and x * sigmoid(x).
Value sigmoid(Emitter &e, Value x);
Value silu(Emitter &e, Value x);

} // namespace smelt::codegen::cpu
