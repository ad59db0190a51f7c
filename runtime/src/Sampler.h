// Choosing a token from logits, with the same result on every machine.
#pragma once

#include "runtime/src/Status.h"
#include "smelt/runtime.h"

#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace smelt::runtime {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a hash of a counter
// and a key, so that any draw can be repeated without a state.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// 64 random bits, a function of the arguments alone.
uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t step);

// e^x for x <= 0 within 1 ulp or so, by IEEE operations alone: libm's exp differs between machines in the
// last bit.
double expNegative(double x);

// How a token is drawn, in the numbers that decide it. A token's weight is the integer
// floor(e^((logit - largest) / temperature) * 2^weightShift): sums of integers do not depend on their order,
// so a GPU that adds them in another one draws the same token.
struct DrawLimits {
  double inverseTemperature = 0; // 0: the largest logit, ties to the lower index
  uint64_t share = 0;            // of the total weight to keep, times 2^64; 0: all of it
  uint32_t topK = 0;             // tokens to keep at most; 0: all
};
DrawLimits drawLimits(const smelt_sampling &sampling);

// Weights of `vocabSize` tokens add up to less than 2^63.
constexpr unsigned weightShift(uint32_t vocabSize) { return 62 - unsigned(std::bit_width(vocabSize)); }

// SMELT_input: temperature negative or not finite, top_p outside (0, 1].
Status checkSampling(const smelt_sampling &sampling);
// That the weights of a model made a logit NaN or infinite.
Status badLogit(size_t token);
// See smelt_sample. Tokens are ranked by logit, then index; the first top_k of them are kept, then the fewest
// whose weight is top_p of what these weigh, and one of the kept is drawn: the first, in the order of
// indices, up to which the weights exceed randomBits() / 2^64 of their sum.
Result<int32_t> sample(std::span<const float> logits, const smelt_sampling &sampling, uint64_t stream,
                       uint64_t step);

} // namespace smelt::runtime
