#include "compiler/Weights/RandomFill.h"

#include <bit>
#include <xxhash.h>

// A fused multiply-add would round differently on processors that have one.
#pragma STDC FP_CONTRACT OFF

// One copy of the loop per instruction set; the loader picks. Integer arithmetic, one multiplication and one
// addition give the same bits in each.
#if defined(__x86_64__) && defined(__clang__)
#if !__has_feature(address_sanitizer)
#define SMELT_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#endif
#ifndef SMELT_VECTOR_CLONES
#define SMELT_VECTOR_CLONES
#endif

namespace smelt::weights {

namespace {

// Mean and standard deviation of the sum of four independent uniform integers in [0, 65535]:
// 4 * 65535 / 2 and sqrt(4 * (65536^2 - 1) / 12).
constexpr int32_t sum_mean = 131070;
constexpr float sum_deviation = 37837.227F;

// The output function of SplitMix64 applied to the index-th state after `key`: a counter-based generator.
inline uint64_t hashAt(uint64_t key, uint64_t index) {
  uint64_t z = key + (index + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

inline float valueAt(uint64_t key, uint64_t index, float mean, float scale) {
  uint64_t bits = hashAt(key, index);
  // Adds the four 16-bit parts two at a time; 17-bit sums do not overlap.
  uint64_t pairs = (bits & 0x0000FFFF0000FFFFU) + ((bits >> 16) & 0x0000FFFF0000FFFFU);
  int32_t sum = static_cast<int32_t>(pairs & 0xFFFFFFFFU) + static_cast<int32_t>(pairs >> 32);
  float scaled = static_cast<float>(sum - sum_mean) * scale;
  return mean + scaled;
}

inline uint16_t roundToBf16(float value) {
  // Values are finite, so adding the rounding bias cannot turn one into a NaN.
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bits += 0x7FFFU + ((bits >> 16) & 1U);
  return static_cast<uint16_t>(bits >> 16);
}

} // namespace

uint64_t tensorKey(uint64_t seed, std::string_view name) {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

SMELT_VECTOR_CLONES
void fillF32(uint64_t key, Distribution distribution, uint64_t first, float *out, size_t count) {
  float scale = distribution.deviation / sum_deviation;
  for (size_t i = 0; i < count; ++i) {
    out[i] = valueAt(key, first + i, distribution.mean, scale);
  }
}

SMELT_VECTOR_CLONES
void fillBf16(uint64_t key, Distribution distribution, uint64_t first, uint16_t *out, size_t count) {
  float scale = distribution.deviation / sum_deviation;
  for (size_t i = 0; i < count; ++i) {
    out[i] = roundToBf16(valueAt(key, first + i, distribution.mean, scale));
  }
}

} // namespace smelt::weights
