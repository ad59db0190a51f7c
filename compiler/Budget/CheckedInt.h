// 64-bit integers that remember an overflow instead of wrapping.
#pragma once

#include <cstdint>
#include <optional>

namespace smelt::budget {

class CheckedInt {
public:
  constexpr CheckedInt(int64_t value = 0) : number(value) {}

  // Nothing once any operation on the way overflowed.
  constexpr std::optional<int64_t> value() const { return valid ? std::optional(number) : std::nullopt; }

  friend constexpr CheckedInt operator+(CheckedInt a, CheckedInt b) {
    CheckedInt result;
    result.valid = !__builtin_add_overflow(a.number, b.number, &result.number) && a.valid && b.valid;
    return result;
  }
  friend constexpr CheckedInt operator*(CheckedInt a, CheckedInt b) {
    CheckedInt result;
    result.valid = !__builtin_mul_overflow(a.number, b.number, &result.number) && a.valid && b.valid;
    return result;
  }
  constexpr CheckedInt &operator+=(CheckedInt other) { return *this = *this + other; }

private:
  int64_t number;
  bool valid = true;
};

} // namespace smelt::budget
