#include "compiler/Weights/Quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace smelt::weights {

namespace {

constexpr float largest_code = 127;

float widen(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t nearestBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<uint16_t>((bits >> 16) | 0x40); // a NaN stays one
  }
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1)) >> 16);
}

// The smallest bf16 scale with 127 * scale >= magnitude.
uint16_t scaleFor(float magnitude) {
  auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(magnitude / largest_code) >> 16);
  while (largest_code * widen(bits) < magnitude) { // the product is exact or above the range
    ++bits;
  }
  return bits;
}

} // namespace

double QuantError::relativeL2() const { return weights > 0 ? std::sqrt(errors / weights) : 0; }

void QuantError::add(const QuantError &other) {
  weights += other.weights;
  errors += other.errors;
  half_step = std::max(half_step, other.half_step);
  largest = std::max(largest, other.largest);
  count += other.count;
}

bool quantizeRow(const float *values, uint64_t columns, int8_t *codes, uint16_t *scales, QuantError &error) {
  for (uint64_t begin = 0; begin < columns; begin += quant_block) {
    uint64_t count = std::min(quant_block, columns - begin);
    const float *block = values + begin;
    float magnitude = 0;
    bool finite = true;
    for (uint64_t i = 0; i < count; ++i) {
      magnitude = std::max(magnitude, std::fabs(block[i]));
      finite &= std::isfinite(block[i]);
    }
    if (!finite) {
      return false;
    }
    uint16_t scale_bits = scaleFor(magnitude);
    float scale = widen(scale_bits);
    scales[begin / quant_block] = scale_bits;
    double squares = 0, lost = 0;
    float largest = 0;
    for (uint64_t i = 0; i < count; ++i) {
      float code = scale > 0 ? std::nearbyint(block[i] / scale) : 0;
      float difference = block[i] - code * scale;
      codes[begin + i] = static_cast<int8_t>(code);
      squares += static_cast<double>(block[i]) * block[i];
      lost += static_cast<double>(difference) * difference;
      largest = std::max(largest, std::fabs(difference));
    }
    error.weights += squares;
    error.errors += lost;
    error.largest = std::max(error.largest, largest);
    error.half_step = std::max(error.half_step, scale / 2);
    error.count += count;
  }
  return true;
}

void dequantizeRow(const int8_t *codes, const uint16_t *scales, uint64_t columns, float *values) {
  for (uint64_t i = 0; i < columns; ++i) {
    values[i] = static_cast<float>(codes[i]) * widen(scales[i / quant_block]);
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

} // namespace smelt::weights
