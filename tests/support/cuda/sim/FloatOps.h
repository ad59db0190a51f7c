// Scalar operations on floats and the wrappers for .ftz, .sat and .relu.
#pragma once

#include "tests/support/cuda/sim/Half.h"

#include <limits>

namespace smelt::emu {

struct FAdd {
  template <class T> static T apply(T a, T b) { return a + b; }
};
struct FSub {
  template <class T> static T apply(T a, T b) { return a - b; }
};
struct FMul {
  template <class T> static T apply(T a, T b) { return a * b; }
};
struct FDiv {
  template <class T> static T apply(T a, T b) { return a / b; }
};
struct FFma {
  template <class T> static T apply(T a, T b, T c) { return std::fma(a, b, c); }
};
/// min and max give the other operand for a NaN, and order -0 before +0.
struct FMin {
  template <class T> static T apply(T a, T b) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
  }
};
struct FMax {
  template <class T> static T apply(T a, T b) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
  }
};
template <class Op> struct PropagateNan {
  template <class T> static T apply(T a, T b) {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : Op::apply(a, b);
  }
};
struct FAbs {
  template <class T> static T apply(T a) { return std::fabs(a); }
};
struct FNeg {
  template <class T> static T apply(T a) { return -a; }
};
struct FRcp {
  template <class T> static T apply(T a) { return T(1) / a; }
};
struct FSqrt {
  template <class T> static T apply(T a) { return std::sqrt(a); }
};
struct FRsqrt {
  template <class T> static T apply(T a) { return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a))); }
};
struct FSin {
  template <class T> static T apply(T a) { return std::sin(a); }
};
struct FCos {
  template <class T> static T apply(T a) { return std::cos(a); }
};
struct FLg2 {
  template <class T> static T apply(T a) { return std::log2(a); }
};
struct FEx2 {
  template <class T> static T apply(T a) { return std::exp2(a); }
};
struct FTanh {
  template <class T> static T apply(T a) { return std::tanh(a); }
};

inline float flush(float a) {
  return (floatToBits(a) & 0x7f800000) ? a : bitsToFloat(floatToBits(a) & 0x80000000);
}

/// .ftz: subnormal operands and results become zeros of their sign.
template <class Op> struct Ftz {
  template <class... T> static float apply(T... args) { return flush(Op::apply(flush(args)...)); }
};
/// .sat: into [0, 1], NaN to 0.
template <class Op> struct Sat {
  template <class T, class... More> static T apply(T a, More... more) {
    const T value = Op::apply(a, more...);
    return value > T(0) ? (value < T(1) ? value : T(1)) : T(0);
  }
};
template <class Op> struct Relu {
  template <class T, class... More> static T apply(T a, More... more) {
    const T value = Op::apply(a, more...);
    return value > T(0) ? value : value != value ? value : T(0);
  }
};

} // namespace smelt::emu
