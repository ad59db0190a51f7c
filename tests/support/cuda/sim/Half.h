// The 16-bit and 8-bit float formats, as bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace smelt::emu {

inline float bitsToFloat(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t floatToBits(float value) { return std::bit_cast<uint32_t>(value); }

inline float bf16ToFloat(uint16_t bits) { return bitsToFloat(uint32_t(bits) << 16); }

/// Rounds to nearest even; NaN becomes the canonical 0x7fff, as cvt does.
inline uint16_t floatToBf16(float value) {
  const uint32_t bits = floatToBits(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? uint16_t(0x7fff) : static_cast<uint16_t>(rounded);
}

inline float f16ToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  // Subnormals and normals alike: the magnitude times 2^112 in the wider exponent range.
  float value = bitsToFloat(magnitude << 13) * 0x1p112f;
  value = magnitude >= 0x7c00 ? bitsToFloat(0x7f800000 | (magnitude & 0x3ff) << 13) : value;
  return bitsToFloat(floatToBits(value) | sign);
}

inline uint16_t floatToF16(float value) {
  const uint32_t bits = floatToBits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return 0x7fff;
  }
  if (magnitude >= 0x477ff000) {
    return static_cast<uint16_t>(sign | 0x7c00);
  }
  if (magnitude < 0x38800000) {
    // Adding 0.5 puts the subnormal's unit at the last bit of the mantissa: the addition rounds.
    return static_cast<uint16_t>(sign | (floatToBits(bitsToFloat(magnitude) + 0.5f) - 0x3f000000));
  }
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

/// e4m3 (no infinity) and e5m2, the formats of FP8.
float e4m3ToFloat(uint8_t bits);
float e5m2ToFloat(uint8_t bits);
uint8_t floatToE4m3(float value); ///< saturates to the largest finite value
uint8_t floatToE5m2(float value);

} // namespace smelt::emu
