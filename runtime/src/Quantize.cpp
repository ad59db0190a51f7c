#include "runtime/src/Quantize.h"

#include <algorithm>
#include <bit>

namespace smelt::runtime {

namespace {

constexpr float largestCode = 127;
constexpr uint32_t infinity = 0x7f800000;
// Added to and taken from a number below 2^22, it leaves the nearest whole number, ties to even: above 2^23
// floats are 1 apart.
constexpr float rounder = 12582912; // 1.5 * 2^23

float widen(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

uint16_t nearestBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > infinity) {
    return uint16_t((bits >> 16) | 0x40); // a NaN stays one
  }
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The largest magnitude, by its bits, which are ordered as the magnitudes are; above `infinity` a NaN.
uint32_t largestMagnitude(const float *values, uint64_t count) {
  int32_t largest = 0; // signed: SSE2 compares no other integers
  for (uint64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  }
  return uint32_t(largest);
}

// The smallest bf16 scale with 127 * scale >= magnitude.
uint16_t scaleFor(float magnitude) {
  auto bits = uint16_t(std::bit_cast<uint32_t>(magnitude / largestCode) >> 16);
  while (largestCode * widen(bits) < magnitude) { // the product is exact or above the range
    ++bits;
  }
  return bits;
}

} // namespace

bool quantizeRow(const float *values, uint64_t columns, int8_t *codes, uint16_t *scales) {
  for (uint64_t begin = 0; begin < columns; begin += quantBlock) {
    uint64_t count = std::min(quantBlock, columns - begin);
    const float *block = values + begin;
    uint32_t magnitude = largestMagnitude(block, count);
    if (magnitude >= infinity) {
      return false;
    }
    uint16_t scaleBits = scaleFor(std::bit_cast<float>(magnitude));
    scales[begin / quantBlock] = scaleBits;
    // Of a block of zeros, whose scale is 0, the quotients are 0 as well.
    float scale = scaleBits ? widen(scaleBits) : 1;
    for (uint64_t i = 0; i < count; ++i) {
      codes[begin + i] = int8_t(int32_t(block[i] / scale + rounder - rounder));
    }
  }
  return true;
}

void dequantizeRow(const int8_t *codes, const uint16_t *scales, uint64_t columns, float *values) {
  for (uint64_t i = 0; i < columns; ++i) {
    values[i] = float(codes[i]) * widen(scales[i / quantBlock]);
  }
}

void widenBf16(const uint16_t *in, float *out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = widen(in[i]);
  }
}

void roundToBf16(const float *in, uint16_t *out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = nearestBf16(in[i]);
  }
}

} // namespace smelt::runtime
