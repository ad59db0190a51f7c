// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, carry chains.
#include "tests/support/cuda/sim/Handlers.h"

#include <algorithm>
#include <limits>

namespace smelt::emu {
namespace {

template <class T> using Unsigned = std::make_unsigned_t<T>;

struct Add {
  template <class T> static T apply(T a, T b) { return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b)); }
};
struct Sub {
  template <class T> static T apply(T a, T b) { return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b)); }
};
struct AddSat {
  static int32_t apply(int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t(a) + b, INT32_MIN, INT32_MAX));
  }
};
struct SubSat {
  static int32_t apply(int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t(a) - b, INT32_MIN, INT32_MAX));
  }
};
struct MulLo {
  template <class T> static T apply(T a, T b) { return static_cast<T>(uint64_t(a) * uint64_t(b)); }
};
struct MulHi {
  template <class T> static T apply(T a, T b) {
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((Wide(a) * Wide(b)) >> (8 * sizeof(T)));
  }
};
/// Sources T, result twice as wide.
template <class W> struct MulWide {
  template <class T> static W apply(T a, T b) { return static_cast<W>(W(a) * W(b)); }
};
struct MadLo {
  template <class T> static T apply(T a, T b, T c) {
    return static_cast<T>(uint64_t(a) * uint64_t(b) + uint64_t(c));
  }
};
struct MadHi {
  template <class T> static T apply(T a, T b, T c) { return Add::apply(MulHi::apply(a, b), c); }
};
template <class W> struct MadWide {
  template <class T> static W apply(T a, T b, W c) { return Add::apply(MulWide<W>::apply(a, b), c); }
};
/// 24-bit products of 32-bit registers.
template <int Shift> struct Mul24 {
  template <class T> static T apply(T a, T b) {
    const auto cut = [](T v) {
      return std::is_signed_v<T> ? int64_t(int32_t(uint32_t(v) << 8)) >> 8 : int64_t(v & 0xffffff);
    };
    return static_cast<T>((cut(a) * cut(b)) >> Shift);
  }
};
struct Mad24 {
  template <class T> static T apply(T a, T b, T c) { return Add::apply(Mul24<0>::apply(a, b), c); }
};
/// Division by zero is unspecified in PTX; GPUs give all ones.
struct Div {
  template <class T> static T apply(T a, T b) {
    if (b == 0) {
      return static_cast<T>(~T(0));
    }
    return std::is_signed_v<T> && b == static_cast<T>(-1) ? Sub::apply(T(0), a) : static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T> static T apply(T a, T b) {
    if (b == 0) {
      return a;
    }
    return std::is_signed_v<T> && b == static_cast<T>(-1) ? T(0) : static_cast<T>(a % b);
  }
};
struct Min {
  template <class T> static T apply(T a, T b) { return a < b ? a : b; }
};
struct Max {
  template <class T> static T apply(T a, T b) { return a > b ? a : b; }
};
struct Abs {
  template <class T> static T apply(T a) { return a < 0 ? Sub::apply(T(0), a) : a; }
};
struct Neg {
  template <class T> static T apply(T a) { return Sub::apply(T(0), a); }
};
struct Sad {
  template <class T> static T apply(T a, T b, T c) {
    return Add::apply(c, a < b ? Sub::apply(b, a) : Sub::apply(a, b));
  }
};

/// add.cc and the like; the carry is a predicate of its own in `e`. x: subtract, y: use the carry, z: set it.
template <class T> Step carry(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a), *b = warp.src<T>(in.b);
  T *d = warp.dst<T>(in.d);
  const uint32_t carries = in.y ? *warp.src<uint32_t>(in.e) : 0;
  uint32_t out = 0;
  eachLane(lanes, [&](uint32_t i) {
    const unsigned __int128 right = static_cast<unsigned __int128>(b[i]) + (carries >> i & 1);
    const unsigned __int128 sum = in.x ? static_cast<unsigned __int128>(a[i]) - right : a[i] + right;
    out |= uint32_t((sum >> (8 * sizeof(T))) & 1) << i;
    d[i] = static_cast<T>(sum);
  });
  if (in.z) {
    warp.setPredicate(in.e, out, lanes);
  }
  return Step::Next;
}

/// mad.lo.cc, madc.hi and the like.
template <class T> Step madCarry(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a), *b = warp.src<T>(in.b), *c = warp.src<T>(in.c);
  T *d = warp.dst<T>(in.d);
  const uint32_t carries = in.y ? *warp.src<uint32_t>(in.e) : 0;
  uint32_t out = 0;
  eachLane(lanes, [&](uint32_t i) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a[i]) * b[i];
    const T part = static_cast<T>(in.x ? product >> (8 * sizeof(T)) : product);
    const unsigned __int128 sum = static_cast<unsigned __int128>(part) + c[i] + (carries >> i & 1);
    out |= uint32_t((sum >> (8 * sizeof(T))) & 1) << i;
    d[i] = static_cast<T>(sum);
  });
  if (in.z) {
    warp.setPredicate(in.e, out, lanes);
  }
  return Step::Next;
}

template <class Op> void integerBinary(Decoding &d, Instr &in, Type type) {
  withInteger(d, type, [&](auto t) { in.run = binary<Op, decltype(t)>; });
  operands(d, in, bytesOf(type), 2);
}

/// u16x2 and s16x2: two independent halves.
template <class Op, class Half> struct Halves {
  static uint32_t apply(uint32_t a, uint32_t b) {
    const auto low = static_cast<uint16_t>(Op::apply(static_cast<Half>(a), static_cast<Half>(b)));
    const auto high =
        static_cast<uint16_t>(Op::apply(static_cast<Half>(a >> 16), static_cast<Half>(b >> 16)));
    return low | uint32_t(high) << 16;
  }
};
template <class Op> void packedPair(Decoding &d, Instr &in, Type type) {
  in.run =
      type == Type::S16x2 ? binary<Halves<Op, int16_t>, uint32_t> : binary<Halves<Op, uint16_t>, uint32_t>;
  operands(d, in, 4, 2);
}

void decodeCarry(Decoding &d, Instr &in, bool subtract, bool use) {
  const bool set = d.take("cc");
  const Type type = d.takeType();
  in.run = bytesOf(type) == 8 ? carry<uint64_t> : carry<uint32_t>;
  in.x = subtract;
  in.y = use;
  in.z = set;
  operands(d, in, bytesOf(type), 2);
  in.e = d.layout.carry();
}

template <class Narrow, class Wide> void decodeWide(Decoding &d, Instr &in, bool add) {
  in.run = add ? ternary<MadWide<Wide>, Wide, Narrow> : binary<MulWide<Wide>, Wide, Narrow>;
  d.done();
  d.expectCount(add ? 4 : 3, add ? 4 : 3);
  in.d = d.dest(0, sizeof(Wide));
  in.a = d.source(1, sizeof(Narrow));
  in.b = d.source(2, sizeof(Narrow));
  if (add) {
    in.c = d.source(3, sizeof(Wide));
  }
}

void decodeWideOf(Decoding &d, Instr &in, bool add) {
  switch (d.takeType()) {
  case Type::U16:
    return decodeWide<uint16_t, uint32_t>(d, in, add);
  case Type::S16:
    return decodeWide<int16_t, int32_t>(d, in, add);
  case Type::U32:
    return decodeWide<uint32_t, uint64_t>(d, in, add);
  case Type::S32:
    return decodeWide<int32_t, int64_t>(d, in, add);
  default:
    d.fail("wide products take 16- and 32-bit integers");
  }
}

} // namespace

void decodeIntegerAddSub(Decoding &d, Instr &in, bool subtract) {
  if (d.peek() == "cc") {
    return decodeCarry(d, in, subtract, false);
  }
  const bool saturate = d.take("sat");
  const Type type = d.takeType();
  if (type == Type::U16x2 || type == Type::S16x2) {
    return subtract ? packedPair<Sub>(d, in, type) : packedPair<Add>(d, in, type);
  }
  if (saturate) {
    in.run = subtract ? binary<SubSat, int32_t> : binary<AddSat, int32_t>;
    return operands(d, in, 4, 2);
  }
  subtract ? integerBinary<Sub>(d, in, type) : integerBinary<Add>(d, in, type);
}

void decodeIntegerMul(Decoding &d, Instr &in) {
  switch (d.oneOf({"lo", "hi", "wide"})) {
  case 0:
    return integerBinary<MulLo>(d, in, d.takeType());
  case 1:
    return integerBinary<MulHi>(d, in, d.takeType());
  case 2:
    return decodeWideOf(d, in, false);
  default:
    d.fail("mul of integers needs .lo, .hi or .wide");
  }
}

namespace {

/// .relu: negative results become 0.
template <class Op> struct ReluOf {
  template <class T> static T apply(T a, T b) {
    const T value = Op::apply(a, b);
    return value < 0 ? T(0) : value;
  }
};

template <class Op> void decodeExtreme(Decoding &d, Instr &in) {
  const bool relu = d.take("relu");
  const Type type = d.takeType();
  if (relu && type != Type::S32 && type != Type::S16x2) {
    d.fail(".relu goes with s32 and s16x2");
  }
  if (type == Type::U16x2 || type == Type::S16x2) {
    return relu ? packedPair<ReluOf<Op>>(d, in, type) : packedPair<Op>(d, in, type);
  }
  integerBinary<Op>(d, in, type);
  in.run = relu ? binary<ReluOf<Op>, int32_t> : in.run;
}

} // namespace

void decodeIntegerMinMax(Decoding &d, Instr &in, bool maximum) {
  maximum ? decodeExtreme<Max>(d, in) : decodeExtreme<Min>(d, in);
}

void decodeIntegerDiv(Decoding &d, Instr &in) { integerBinary<Div>(d, in, d.takeType()); }

void decodeIntegerUnary(Decoding &d, Instr &in, bool absolute) {
  const Type type = d.takeType();
  withInteger(d, type, [&](auto t) {
    using T = std::make_signed_t<decltype(t)>;
    in.run = absolute ? unary<Abs, T> : unary<Neg, T>;
  });
  operands(d, in, bytesOf(type), 1);
}

namespace {

void decodeMad(Decoding &d, Instr &in) {
  const int half = d.oneOf({"lo", "hi", "wide"});
  if (half == 2) {
    return decodeWideOf(d, in, true);
  }
  if (half < 0) {
    d.fail("mad of integers needs .lo, .hi or .wide");
  }
  const bool set = d.take("cc");
  const Type type = d.takeType();
  if (set) {
    in.run = bytesOf(type) == 8 ? madCarry<uint64_t> : madCarry<uint32_t>;
    in.x = half == 1;
    in.z = 1;
    in.e = d.layout.carry();
    const Ref e = in.e;
    operands(d, in, bytesOf(type), 3);
    in.e = e;
    return;
  }
  withInteger(d, type, [&](auto t) {
    using T = decltype(t);
    in.run = half == 0 ? ternary<MadLo, T> : ternary<MadHi, T>;
  });
  operands(d, in, bytesOf(type), 3);
}

void decodeMadc(Decoding &d, Instr &in) {
  const int half = d.oneOf({"lo", "hi"});
  const bool set = d.take("cc");
  const Type type = d.takeType();
  if (half < 0 || isSigned(type)) {
    d.fail("this form of madc is not emulated");
  }
  in.run = bytesOf(type) == 8 ? madCarry<uint64_t> : madCarry<uint32_t>;
  in.x = half == 1;
  in.y = 1;
  in.z = set;
  operands(d, in, bytesOf(type), 3);
  in.e = d.layout.carry();
}

void decodeMul24(Decoding &d, Instr &in) {
  const int half = d.oneOf({"lo", "hi"});
  const bool sign = d.takeType() == Type::S32;
  in.run = half == 0 ? (sign ? binary<Mul24<0>, int32_t> : binary<Mul24<0>, uint32_t>)
                     : (sign ? binary<Mul24<16>, int32_t> : binary<Mul24<16>, uint32_t>);
  operands(d, in, 4, 2);
}

void decodeMad24(Decoding &d, Instr &in) {
  if (!d.take("lo")) {
    d.fail("only mad24.lo is emulated");
  }
  in.run = d.takeType() == Type::S32 ? ternary<Mad24, int32_t> : ternary<Mad24, uint32_t>;
  operands(d, in, 4, 3);
}

void decodeSad(Decoding &d, Instr &in) {
  const Type type = d.takeType();
  withInteger(d, type, [&](auto t) { in.run = ternary<Sad, decltype(t)>; });
  operands(d, in, bytesOf(type), 3);
}

/// Sum of products of 8-bit fields; x: signs of a and b.
Step dp4a(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint32_t *a = warp.src<uint32_t>(in.a), *b = warp.src<uint32_t>(in.b), *c = warp.src<uint32_t>(in.c);
  storeLanes(warp.dst<uint32_t>(in.d), lanes, [&](uint32_t i) {
    uint32_t sum = c[i];
    for (uint32_t byte = 0; byte < 32; byte += 8) {
      const uint32_t x = a[i] >> byte & 255, y = b[i] >> byte & 255;
      const int32_t left = in.x & 1 ? int8_t(x) : int32_t(x), right = in.x & 2 ? int8_t(y) : int32_t(y);
      sum += static_cast<uint32_t>(left * right);
    }
    return sum;
  });
  return Step::Next;
}

void decodeDp4a(Decoding &d, Instr &in) {
  in.x = d.takeType() == Type::S32 ? 1 : 0;
  in.x |= d.takeType() == Type::S32 ? 2 : 0;
  in.run = dp4a;
  operands(d, in, 4, 3);
}

} // namespace

void decodeIntegerMad(Decoding &d, Instr &in) { decodeMad(d, in); }

void addIntegers(DecodeTable &table) {
  table["madc"] = decodeMadc;
  table["addc"] = [](Decoding &d, Instr &in) { decodeCarry(d, in, false, true); };
  table["subc"] = [](Decoding &d, Instr &in) { decodeCarry(d, in, true, true); };
  table["rem"] = [](Decoding &d, Instr &in) { integerBinary<Rem>(d, in, d.takeType()); };
  table["mul24"] = decodeMul24;
  table["mad24"] = decodeMad24;
  table["sad"] = decodeSad;
  table["dp4a"] = decodeDp4a;
}

} // namespace smelt::emu
