// Choosing a token from logits, with the same result on every machine.
#pragma once

#include "runtime/src/Status.h"
#include "smelt/runtime.h"

#include <array>
#include <cstdint>
#include <span>

namespace smelt::runtime {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a hash of a counter
// and a key, so that any draw can be repeated without a state.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Uniform in [0, 1), 53 bits, a function of its arguments alone.
double uniform(uint64_t seed, uint64_t stream, uint64_t step);

// e^x for x <= 0 within 1 ulp or so, by IEEE operations alone: libm's exp differs between machines in the
// last bit.
double expNegative(double x);

// SMELT_input: temperature negative or not finite, top_p outside (0, 1].
Status checkSampling(const smelt_sampling &sampling);
// See smelt_sample.
Result<int32_t> sample(std::span<const float> logits, const smelt_sampling &sampling, uint64_t stream,
                       uint64_t step);

} // namespace smelt::runtime
