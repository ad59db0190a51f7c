// add, sub, mul, fma, mad, div, min, max, abs, neg, copysign: the opcodes that integers and floats share are
// told apart here.
#include "tests/support/cuda/sim/FloatOps.h"
#include "tests/support/cuda/sim/Handlers.h"
#include "tests/support/cuda/sim/Rounded.h"

namespace smelt::emu {

void decodeIntegerAddSub(Decoding &d, Instr &in, bool subtract);
void decodeIntegerMul(Decoding &d, Instr &in);
void decodeIntegerMinMax(Decoding &d, Instr &in, bool maximum);
void decodeIntegerDiv(Decoding &d, Instr &in);
void decodeIntegerUnary(Decoding &d, Instr &in, bool absolute);
void decodeIntegerMad(Decoding &d, Instr &in);
/// Half.cpp: f16, bf16 and their pairs. False if `type` is none of them.
bool decodeHalf(Decoding &d, Instr &in, Type type, const char *op, bool relu, bool nan, bool saturate);

namespace {

bool endsInFloat(const Decoding &d) {
  Type type;
  return parseType(d.statement.op.back(), type) && isFloat(type);
}

struct Modifiers {
  int rounding = 0; ///< 0 nearest even, 1 toward zero, 2 down, 3 up
  bool approx = false, full = false, ftz = false, sat = false, nan = false, relu = false, oob = false;
  Type type = Type::F32;
};

Modifiers takeModifiers(Decoding &d) {
  Modifiers m;
  for (;;) {
    if (const int rounding = d.oneOf({"rn", "rz", "rm", "rp"}); rounding >= 0) {
      m.rounding = rounding;
    } else if (d.take("approx")) {
      m.approx = true;
    } else if (d.take("full")) {
      m.full = true;
    } else if (d.take("ftz")) {
      m.ftz = true;
    } else if (d.take("sat")) {
      m.sat = true;
    } else if (d.take("NaN")) {
      m.nan = true;
    } else if (d.take("relu")) {
      m.relu = true;
    } else {
      break;
    }
  }
  m.type = d.takeType();
  return m;
}

/// The other rounding modes are for single values.
void needScalar(const Decoding &d, Type type) {
  if (type != Type::F32 && type != Type::F64) {
    d.fail("this rounding of pairs is not emulated");
  }
}

/// The same operation on both halves of a 64-bit register.
template <class Op> struct OnFloats {
  template <class... T> static uint64_t apply(T... args) {
    const uint32_t low = floatToBits(Op::apply(bitsToFloat(static_cast<uint32_t>(args))...));
    const uint32_t high = floatToBits(Op::apply(bitsToFloat(static_cast<uint32_t>(args >> 32))...));
    return low | uint64_t(high) << 32;
  }
};

/// Handler of a two-operand operation on f32, pairs of them, or f64.
template <class Op> Handler binaryFloat(const Modifiers &m) {
  if (m.type == Type::F64) {
    return binary<Op, double>;
  }
  if (m.type == Type::F32x2) {
    return m.ftz ? binary<OnFloats<Ftz<Op>>, uint64_t> : binary<OnFloats<Op>, uint64_t>;
  }
  if (m.sat) {
    return m.ftz ? binary<Sat<Ftz<Op>>, float> : binary<Sat<Op>, float>;
  }
  return m.ftz ? binary<Ftz<Op>, float> : binary<Op, float>;
}

template <class Op> Handler ternaryFloat(const Modifiers &m) {
  if (m.type == Type::F64) {
    return ternary<Op, double>;
  }
  if (m.type == Type::F32x2) {
    return m.ftz ? ternary<OnFloats<Ftz<Op>>, uint64_t> : ternary<OnFloats<Op>, uint64_t>;
  }
  if (m.sat) {
    return m.ftz ? ternary<Sat<Ftz<Op>>, float> : ternary<Sat<Op>, float>;
  }
  return m.ftz ? ternary<Ftz<Op>, float> : ternary<Op, float>;
}

template <class Op> void decodeBinary(Decoding &d, Instr &in, const char *name, RoundedOp rounded) {
  const Modifiers m = takeModifiers(d);
  if (decodeHalf(d, in, m.type, name, m.relu, m.nan, m.sat)) {
    return;
  }
  in.run = binaryFloat<Op>(m);
  if (m.rounding != 0) {
    needScalar(d, m.type);
    in.run = roundedHandler(rounded, m.type == Type::F64);
    in.x = static_cast<uint32_t>(m.rounding);
    in.y = m.ftz;
    in.z = m.sat;
  }
  operands(d, in, bytesOf(m.type), 2, m.type);
}

void decodeAdd(Decoding &d, Instr &in) {
  endsInFloat(d) ? decodeBinary<FAdd>(d, in, "add", RoundedOp::Add) : decodeIntegerAddSub(d, in, false);
}
void decodeSub(Decoding &d, Instr &in) {
  endsInFloat(d) ? decodeBinary<FSub>(d, in, "sub", RoundedOp::Sub) : decodeIntegerAddSub(d, in, true);
}
void decodeMul(Decoding &d, Instr &in) {
  endsInFloat(d) ? decodeBinary<FMul>(d, in, "mul", RoundedOp::Mul) : decodeIntegerMul(d, in);
}
void decodeDiv(Decoding &d, Instr &in) {
  endsInFloat(d) ? decodeBinary<FDiv>(d, in, "div", RoundedOp::Div) : decodeIntegerDiv(d, in);
}

void decodeFma(Decoding &d, Instr &in) {
  const Modifiers m = takeModifiers(d);
  if (decodeHalf(d, in, m.type, "fma", m.relu, m.nan, m.sat)) {
    return;
  }
  in.run = ternaryFloat<FFma>(m);
  if (m.rounding != 0) {
    needScalar(d, m.type);
    in.run = roundedHandler(RoundedOp::Fma, m.type == Type::F64);
    in.x = static_cast<uint32_t>(m.rounding);
    in.y = m.ftz;
    in.z = m.sat;
  }
  operands(d, in, bytesOf(m.type), 3, m.type);
}

void decodeMad(Decoding &d, Instr &in) { endsInFloat(d) ? decodeFma(d, in) : decodeIntegerMad(d, in); }

template <class Op> void decodeExtreme(Decoding &d, Instr &in, bool maximum) {
  if (!endsInFloat(d)) {
    return decodeIntegerMinMax(d, in, maximum);
  }
  if (d.statement.op.size() > 2 && d.statement.op[1] == "xorsign") {
    d.fail("min and max with .xorsign are not emulated");
  }
  const Modifiers m = takeModifiers(d);
  if (decodeHalf(d, in, m.type, maximum ? "max" : "min", m.relu, m.nan, m.sat)) {
    return;
  }
  in.run = m.nan ? binaryFloat<PropagateNan<Op>>(m) : binaryFloat<Op>(m);
  operands(d, in, bytesOf(m.type), 2, m.type);
}

template <class Op> void decodeSign(Decoding &d, Instr &in, bool absolute) {
  if (!endsInFloat(d)) {
    return decodeIntegerUnary(d, in, absolute);
  }
  const Modifiers m = takeModifiers(d);
  if (decodeHalf(d, in, m.type, absolute ? "abs" : "neg", m.relu, m.nan, m.sat)) {
    return;
  }
  in.run = m.type == Type::F64 ? unary<Op, double> : m.ftz ? unary<Ftz<Op>, float> : unary<Op, float>;
  operands(d, in, bytesOf(m.type), 1, m.type);
}

/// The sign of a on the magnitude of b.
struct CopySign {
  template <class T> static T apply(T a, T b) { return std::copysign(b, a); }
};

void decodeCopysign(Decoding &d, Instr &in) {
  const Type type = d.takeType();
  in.run = type == Type::F64 ? binary<CopySign, double> : binary<CopySign, float>;
  operands(d, in, bytesOf(type), 2, type);
}

} // namespace

void addFloats(DecodeTable &table) {
  table["add"] = decodeAdd;
  table["sub"] = decodeSub;
  table["mul"] = decodeMul;
  table["div"] = decodeDiv;
  table["fma"] = decodeFma;
  table["mad"] = decodeMad;
  table["min"] = [](Decoding &d, Instr &in) { decodeExtreme<FMin>(d, in, false); };
  table["max"] = [](Decoding &d, Instr &in) { decodeExtreme<FMax>(d, in, true); };
  table["abs"] = [](Decoding &d, Instr &in) { decodeSign<FAbs>(d, in, true); };
  table["neg"] = [](Decoding &d, Instr &in) { decodeSign<FNeg>(d, in, false); };
  table["copysign"] = decodeCopysign;
}

} // namespace smelt::emu
