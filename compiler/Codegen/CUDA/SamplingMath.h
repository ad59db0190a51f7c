// Sampling as runtime/src/Sampler.cpp does it, to the last bit: random numbers and the weights of tokens.
#pragma once

#include "compiler/Codegen/CUDA/Emitter.h"

namespace smelt::codegen::cuda {

// randomBits(): 64 random bits of (seed, stream, step), each an i64.
Value randomBits(Emitter &e, Value seed, Value stream, Value step);

// What a token weighs, an i64: floor(e^((logit - best) * inverseTemperature) * 2^shift), logits f32 with best
// the largest, the rest f64.
Value tokenWeight(Emitter &e, Value logit, Value best, Value inverseTemperature, unsigned shift);

} // namespace smelt::codegen::cuda
