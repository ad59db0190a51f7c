// Reproducible random tensor values. Each value depends on (seed, tensor name, index in the tensor) alone:
// not on threads, shards, chunking, the processor or the other tensors of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace smelt::weights {

struct Distribution {
  float mean = 0;
  float deviation = 0;
};

// The stream of one tensor: a hash of its name under the seed.
uint64_t tensorKey(uint64_t seed, std::string_view name);

// values [first, first + count) of the tensor with this key. Approximately normal: the centred sum of four
// uniform 16-bit numbers (Irwin-Hall), so no value lies beyond 3.47 deviations.
void fillF32(uint64_t key, Distribution distribution, uint64_t first, float *out, size_t count);

// The same values rounded to bfloat16, to nearest, ties to even.
void fillBf16(uint64_t key, Distribution distribution, uint64_t first, uint16_t *out, size_t count);

} // namespace smelt::weights
