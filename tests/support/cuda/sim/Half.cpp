#include "tests/support/cuda/sim/Half.h"

namespace smelt::emu {
namespace {

/// A float of `mantissa` bits and exponent bias `bias`; specials are the caller's.
float decode(uint8_t bits, int mantissa, int bias) {
  const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  const float magnitude = exponent
                              ? std::ldexp(1.0f + std::ldexp(float(fraction), -mantissa), exponent - bias)
                              : std::ldexp(float(fraction), 1 - bias - mantissa);
  return bits & 0x80 ? -magnitude : magnitude;
}

/// Rounds to nearest even; values beyond `largest` (the code of the largest finite value) become it.
uint8_t encode(float value, int mantissa, int bias, uint8_t largest) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude == 0) {
    return sign;
  }
  const int exponent = std::max(std::ilogb(std::min(magnitude, 1e30f)), 1 - bias);
  // In units of the last place the sum of hidden bit and fraction is an integer; a carry moves into the
  // exponent.
  const float units = std::nearbyint(std::ldexp(std::min(magnitude, 1e30f), mantissa - exponent));
  const int code = ((exponent + bias - 1) << mantissa) + static_cast<int>(units);
  return static_cast<uint8_t>(sign | std::min<int>(code, largest));
}

} // namespace

float e4m3ToFloat(uint8_t bits) { return (bits & 0x7f) == 0x7f ? std::nanf("") : decode(bits, 3, 7); }
float e5m2ToFloat(uint8_t bits) {
  if ((bits & 0x7c) == 0x7c) {
    return bits & 3 ? std::nanf("") : bits & 0x80 ? -INFINITY : INFINITY;
  }
  return decode(bits, 2, 15);
}
uint8_t floatToE4m3(float value) { return value != value ? 0x7f : encode(value, 3, 7, 0x7e); }
uint8_t floatToE5m2(float value) { return value != value ? 0x7f : encode(value, 2, 15, 0x7b); }

} // namespace smelt::emu
