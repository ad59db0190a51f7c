// cvt: integers of 8 to 64 bits, floats of 16 to 64, pairs of narrow floats.
#include "tests/support/cuda/sim/FloatOps.h"
#include "tests/support/cuda/sim/Handlers.h"
#include "tests/support/cuda/sim/Rounded.h"

#include <algorithm>
#include <limits>

namespace smelt::emu {
namespace {

/// Loads 32 values of type S from a register of `width` bytes, which may be wider.
template <class S> void widenSource(const Warp &warp, Ref ref, uint32_t width, S *to) {
  const auto copy = [&](const auto *from) {
    for (uint32_t i = 0; i < kWarpSize; ++i) {
      to[i] = static_cast<S>(from[i]);
    }
  };
  width == 8   ? copy(warp.src<uint64_t>(ref))
  : width == 4 ? copy(warp.src<uint32_t>(ref))
               : copy(warp.src<uint16_t>(ref));
}

/// Stores into a register of `width` bytes: sign- or zero-extended as the type says.
template <class D> void storeWidened(Warp &warp, Ref ref, uint32_t width, uint32_t lanes, const D *values) {
  const auto value = [&](uint32_t i) { return values[i]; };
  if (width == 8) {
    storeLanes(warp.dst<uint64_t>(ref), lanes, [&](uint32_t i) { return static_cast<uint64_t>(value(i)); });
  } else if (width == 4) {
    storeLanes(warp.dst<uint32_t>(ref), lanes, [&](uint32_t i) { return static_cast<uint32_t>(value(i)); });
  } else {
    storeLanes(warp.dst<uint16_t>(ref), lanes, [&](uint32_t i) { return static_cast<uint16_t>(value(i)); });
  }
}

/// x: source register bytes, y: destination register bytes, z: saturate.
template <class D, class S> Step integerToInteger(Warp &warp, const Instr &in, uint32_t lanes) {
  S from[kWarpSize];
  D to[kWarpSize];
  widenSource(warp, in.a, in.x, from);
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    if (in.z) {
      const __int128 wide = from[i], low = std::numeric_limits<D>::min(),
                     high = std::numeric_limits<D>::max();
      to[i] = static_cast<D>(std::clamp(wide, low, high));
    } else {
      to[i] = static_cast<D>(from[i]);
    }
  }
  storeWidened(warp, in.d, in.y, lanes, to);
  return Step::Next;
}

double roundInteger(double value, uint32_t mode) {
  return mode == 1   ? std::trunc(value)
         : mode == 2 ? std::floor(value)
         : mode == 3 ? std::ceil(value)
                     : std::nearbyint(value);
}

/// Rounding to an integer clamps to the range; NaN gives 0 (the sign bit alone for 64-bit results).
template <class D> D toInteger(double value, uint32_t mode) {
  if (value != value) {
    return sizeof(D) == 8 ? static_cast<D>(uint64_t(1) << 63) : D(0);
  }
  const double rounded = roundInteger(value, mode);
  const double low = static_cast<double>(std::numeric_limits<D>::min());
  const double high = static_cast<double>(std::numeric_limits<D>::max());
  return rounded <= low    ? std::numeric_limits<D>::min()
         : rounded >= high ? std::numeric_limits<D>::max()
                           : static_cast<D>(rounded);
}

/// The float formats by load and store functions.
struct AsF32 {
  using Bits = float;
  static double load(float v) { return v; }
  static float store(double v, uint32_t mode) {
    return mode ? narrowRounded(v, mode) : static_cast<float>(v);
  }
};
struct AsF64 {
  using Bits = double;
  static double load(double v) { return v; }
  static double store(double v, uint32_t) { return v; }
};
/// Toward zero for the 16-bit formats is a truncation of the float's mantissa.
struct AsF16 {
  using Bits = uint16_t;
  static double load(uint16_t v) { return f16ToFloat(v); }
  static uint16_t store(double v, uint32_t mode) {
    const auto narrow = static_cast<float>(v);
    uint16_t bits = floatToF16(narrow);
    if (mode == 1 && std::fabs(f16ToFloat(bits)) > std::fabs(v)) {
      --bits;
    }
    return bits;
  }
};
struct AsBf16 {
  using Bits = uint16_t;
  static double load(uint16_t v) { return bf16ToFloat(v); }
  static uint16_t store(double v, uint32_t mode) {
    const auto narrow = static_cast<float>(v);
    uint16_t bits = floatToBf16(narrow);
    if (mode == 1 && std::fabs(bf16ToFloat(bits)) > std::fabs(v)) {
      --bits;
    }
    return bits;
  }
};

/// x: source register bytes, y: destination register bytes, z: rounding mode; e == 1: flush, c == 1:
/// saturate.
template <class D, class F> Step floatToInteger(Warp &warp, const Instr &in, uint32_t lanes) {
  const auto *a = warp.src<typename F::Bits>(in.a);
  D to[kWarpSize];
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    to[i] = toInteger<D>(F::load(a[i]), in.z);
  }
  storeWidened(warp, in.d, in.y, lanes, to);
  return Step::Next;
}

/// A 64-bit integer may not fit a double: to f32 it is converted directly.
template <class F, class S> Step integerToFloat(Warp &warp, const Instr &in, uint32_t lanes) {
  S from[kWarpSize];
  widenSource(warp, in.a, in.x, from);
  storeLanes(warp.dst<typename F::Bits>(in.d), lanes, [&](uint32_t i) -> typename F::Bits {
    if constexpr (std::is_same_v<F, AsF32>) {
      if (in.z == 0) {
        return static_cast<float>(from[i]);
      }
    }
    return F::store(static_cast<double>(from[i]), in.z);
  });
  return Step::Next;
}

/// b: 1 flush subnormals, 2 saturate, 4 round to an integer, 8 relu.
template <class To, class From> Step floatToFloat(Warp &warp, const Instr &in, uint32_t lanes) {
  const auto *a = warp.src<typename From::Bits>(in.a);
  storeLanes(warp.dst<typename To::Bits>(in.d), lanes, [&](uint32_t i) {
    double value = From::load(a[i]);
    if (in.b & 1) {
      value = std::fabs(value) < 0x1p-126 ? std::copysign(0.0, value) : value;
    }
    if (in.b & 4) {
      value = roundInteger(value, in.z);
    }
    if (in.b & 2) {
      value = value > 0 ? (value < 1 ? value : 1.0) : 0.0;
    }
    if (in.b & 8) {
      value = value < 0 ? 0.0 : value;
    }
    return To::store(value, in.b & 4 ? 0 : in.z);
  });
  return Step::Next;
}

Step bf16ToF32(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint16_t *a = warp.src<uint16_t>(in.a);
  storeLanes(warp.dst<float>(in.d), lanes, [&](uint32_t i) { return bf16ToFloat(a[i]); });
  return Step::Next;
}

Step f32ToBf16(Warp &warp, const Instr &in, uint32_t lanes) {
  const float *a = warp.src<float>(in.a);
  storeLanes(warp.dst<uint16_t>(in.d), lanes, [&](uint32_t i) { return floatToBf16(a[i]); });
  return Step::Next;
}

/// Two f32 into one register, the first operand in the upper half. z: relu.
template <class To> Step packFloats(Warp &warp, const Instr &in, uint32_t lanes) {
  const float *a = warp.src<float>(in.a), *b = warp.src<float>(in.b);
  storeLanes(warp.dst<uint32_t>(in.d), lanes, [&](uint32_t i) {
    const float high = in.z && a[i] < 0 ? 0 : a[i], low = in.z && b[i] < 0 ? 0 : b[i];
    return To::store(low, in.x) | uint32_t(To::store(high, in.x)) << 16;
  });
  return Step::Next;
}

template <uint8_t (*Narrow)(float)> Step packFp8(Warp &warp, const Instr &in, uint32_t lanes) {
  const float *a = warp.src<float>(in.a), *b = warp.src<float>(in.b);
  storeLanes(warp.dst<uint16_t>(in.d), lanes,
             [&](uint32_t i) { return static_cast<uint16_t>(Narrow(b[i]) | uint32_t(Narrow(a[i])) << 8); });
  return Step::Next;
}

template <float (*Widen)(uint8_t)> Step unpackFp8(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint16_t *a = warp.src<uint16_t>(in.a);
  storeLanes(warp.dst<uint32_t>(in.d), lanes, [&](uint32_t i) {
    return floatToF16(Widen(static_cast<uint8_t>(a[i]))) |
           uint32_t(floatToF16(Widen(static_cast<uint8_t>(a[i] >> 8)))) << 16;
  });
  return Step::Next;
}

Step toTf32(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint32_t *a = warp.src<uint32_t>(in.a);
  storeLanes(warp.dst<uint32_t>(in.d), lanes, [&](uint32_t i) {
    const uint32_t v = a[i];
    if ((v & 0x7f800000) == 0x7f800000) {
      return v;
    }
    // x: to nearest even; otherwise halves away from zero (.rna).
    return (v + (in.x ? 0xfff + (v >> 13 & 1) : 0x1000)) & ~0x1fffu;
  });
  return Step::Next;
}

template <class Fn> void withAnyInteger(const Decoding &d, Type type, Fn fn) {
  if (type == Type::U8 || type == Type::B8) {
    return fn(uint8_t());
  }
  if (type == Type::S8) {
    return fn(int8_t());
  }
  withInteger(d, type, fn);
}

template <class Fn> void withFloat(const Decoding &d, Type type, Fn fn) {
  switch (type) {
  case Type::F32:
    return fn(AsF32());
  case Type::F64:
    return fn(AsF64());
  case Type::F16:
    return fn(AsF16());
  case Type::BF16:
    return fn(AsBf16());
  default:
    d.fail("this conversion is not emulated");
  }
}

struct CvtModifiers {
  int rounding = 0, integer_rounding = -1;
  bool ftz = false, sat = false, relu = false, satfinite = false, away = false;
};

CvtModifiers takeModifiers(Decoding &d) {
  CvtModifiers m;
  for (;;) {
    if (const int r = d.oneOf({"rn", "rz", "rm", "rp"}); r >= 0) {
      m.rounding = r;
    } else if (const int i = d.oneOf({"rni", "rzi", "rmi", "rpi"}); i >= 0) {
      m.integer_rounding = i;
    } else if (d.take("rna")) {
      m.away = true;
    } else if (d.take("ftz")) {
      m.ftz = true;
    } else if (d.take("sat")) {
      m.sat = true;
    } else if (d.take("relu")) {
      m.relu = true;
    } else if (d.take("satfinite")) {
      m.satfinite = true;
    } else {
      return m;
    }
  }
}

/// The forms with packed results or sources; false if this is none.
bool decodePacked(Decoding &d, Instr &in, const CvtModifiers &m, Type to, Type from) {
  if ((to == Type::BF16x2 || to == Type::F16x2) && from == Type::F32) {
    in.run = to == Type::BF16x2 ? packFloats<AsBf16> : packFloats<AsF16>;
    in.x = static_cast<uint32_t>(m.rounding);
    in.z = m.relu;
    in.d = d.dest(0, 4);
    in.a = d.source(1, 4, Type::F32);
    in.b = d.source(2, 4, Type::F32);
    return true;
  }
  if ((to == Type::E4M3x2 || to == Type::E5M2x2) && from == Type::F32) {
    in.run = to == Type::E4M3x2 ? packFp8<floatToE4m3> : packFp8<floatToE5m2>;
    in.d = d.dest(0, 2);
    in.a = d.source(1, 4, Type::F32);
    in.b = d.source(2, 4, Type::F32);
    return true;
  }
  if (to == Type::F16x2 && (from == Type::E4M3x2 || from == Type::E5M2x2)) {
    in.run = from == Type::E4M3x2 ? unpackFp8<e4m3ToFloat> : unpackFp8<e5m2ToFloat>;
    in.d = d.dest(0, 4);
    in.a = d.source(1, 2);
    return true;
  }
  if (to == Type::TF32 && from == Type::F32) {
    in.run = toTf32;
    in.x = !m.away;
    in.d = d.dest(0, 4);
    in.a = d.source(1, 4, Type::F32);
    return true;
  }
  return false;
}

void decodeFloatToFloat(Decoding &d, Instr &in, const CvtModifiers &m, Type to, Type from) {
  in.z = static_cast<uint32_t>(m.integer_rounding >= 0 ? m.integer_rounding : m.rounding);
  in.b = (m.ftz ? 1 : 0) | (m.sat ? 2 : 0) | (m.integer_rounding >= 0 ? 4 : 0) | (m.relu ? 8 : 0);
  in.d = d.dest(0, bytesOf(to));
  in.a = d.source(1, bytesOf(from), from);
  if (to == Type::F32 && from == Type::BF16 && in.b == 0) {
    in.run = bf16ToF32;
  } else if (to == Type::BF16 && from == Type::F32 && in.b == 0 && in.z == 0) {
    in.run = f32ToBf16;
  } else {
    withFloat(d, to, [&](auto t) {
      withFloat(d, from, [&](auto f) { in.run = floatToFloat<decltype(t), decltype(f)>; });
    });
  }
}

void decodeCvt(Decoding &d, Instr &in) {
  const CvtModifiers m = takeModifiers(d);
  const Type to = d.takeType(), from = d.takeType();
  d.done();
  if (decodePacked(d, in, m, to, from)) {
    return;
  }
  if (isFloat(to) && isFloat(from)) {
    return decodeFloatToFloat(d, in, m, to, from);
  }
  const auto widthOf = [&](size_t i, Type type) {
    const uint32_t bytes = d.registerBytes(d.operand(i));
    return bytes ? bytes : std::max(bytesOf(type), 2u);
  };
  in.y = widthOf(0, to);
  in.x = widthOf(1, from);
  in.d = d.dest(0, in.y);
  in.a = d.source(1, in.x, from);
  if (in.y < bytesOf(to) || in.x < bytesOf(from)) {
    d.fail("a register is narrower than the type");
  }
  if (isFloat(to)) {
    in.z = static_cast<uint32_t>(m.rounding);
    withFloat(d, to, [&](auto t) {
      withAnyInteger(d, from, [&](auto f) { in.run = integerToFloat<decltype(t), decltype(f)>; });
    });
  } else if (isFloat(from)) {
    in.z = static_cast<uint32_t>(m.integer_rounding >= 0 ? m.integer_rounding : 1);
    withAnyInteger(d, to, [&](auto t) {
      withFloat(d, from, [&](auto f) { in.run = floatToInteger<decltype(t), decltype(f)>; });
    });
  } else {
    in.z = m.sat;
    withAnyInteger(d, to, [&](auto t) {
      withAnyInteger(d, from, [&](auto f) { in.run = integerToInteger<decltype(t), decltype(f)>; });
    });
  }
}

} // namespace

void addConvert(DecodeTable &table) { table["cvt"] = decodeCvt; }

} // namespace smelt::emu
