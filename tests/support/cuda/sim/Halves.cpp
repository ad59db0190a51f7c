// Arithmetic on f16, bf16 and their pairs: computed in wider floats and rounded once.
#include "tests/support/cuda/sim/FloatOps.h"
#include "tests/support/cuda/sim/Handlers.h"

namespace smelt::emu {
namespace {

struct F16 {
  static float widen(uint16_t bits) { return f16ToFloat(bits); }
  static uint16_t narrow(float value) { return floatToF16(value); }
};
struct Bf16 {
  static float widen(uint16_t bits) { return bf16ToFloat(bits); }
  static uint16_t narrow(float value) { return floatToBf16(value); }
};

/// An operation on one 16-bit value. fma goes through double, in which the product and nearly every sum are
/// exact.
template <class Op, class Format> struct OnHalf {
  static uint16_t apply(uint16_t a) { return Format::narrow(Op::apply(Format::widen(a))); }
  static uint16_t apply(uint16_t a, uint16_t b) {
    return Format::narrow(Op::apply(Format::widen(a), Format::widen(b)));
  }
  static uint16_t apply(uint16_t a, uint16_t b, uint16_t c) {
    return Format::narrow(static_cast<float>(
        Op::apply(double(Format::widen(a)), double(Format::widen(b)), double(Format::widen(c)))));
  }
};

/// The same on both halves of a 32-bit register.
template <class Op> struct OnPair {
  template <class... T> static uint32_t apply(T... args) {
    return Op::apply(static_cast<uint16_t>(args)...) |
           uint32_t(Op::apply(static_cast<uint16_t>(args >> 16)...)) << 16;
  }
};

template <class Op, class Format, int Sources> Handler handlerOf(bool pair) {
  using One = OnHalf<Op, Format>;
  if constexpr (Sources == 1) {
    return pair ? unary<OnPair<One>, uint32_t> : unary<One, uint16_t>;
  } else if constexpr (Sources == 2) {
    return pair ? binary<OnPair<One>, uint32_t> : binary<One, uint16_t>;
  } else {
    return pair ? ternary<OnPair<One>, uint32_t> : ternary<One, uint16_t>;
  }
}

template <class Op, int Sources> Handler withFormat(Type type, bool relu) {
  const bool pair = bytesOf(type) == 4;
  const bool bf = type == Type::BF16 || type == Type::BF16x2;
  if (relu) {
    return bf ? handlerOf<Relu<Op>, Bf16, Sources>(pair) : handlerOf<Relu<Op>, F16, Sources>(pair);
  }
  return bf ? handlerOf<Op, Bf16, Sources>(pair) : handlerOf<Op, F16, Sources>(pair);
}

/// Sign operations work on bits, so that NaN payloads stay.
template <uint32_t Bits, bool Clear> struct SignBits {
  template <class T> static T apply(T a) { return static_cast<T>(Clear ? a & ~Bits : a ^ Bits); }
};

} // namespace

bool decodeHalf(Decoding &d, Instr &in, Type type, const char *op, bool relu, bool nan, bool saturate) {
  if (type != Type::F16 && type != Type::BF16 && type != Type::F16x2 && type != Type::BF16x2) {
    return false;
  }
  const std::string_view name = op;
  if (saturate) {
    d.fail("saturated arithmetic on 16-bit floats is not emulated");
  }
  size_t sources = 2;
  if (name == "add") {
    in.run = withFormat<FAdd, 2>(type, relu);
  } else if (name == "sub") {
    in.run = withFormat<FSub, 2>(type, relu);
  } else if (name == "mul") {
    in.run = withFormat<FMul, 2>(type, relu);
  } else if (name == "fma") {
    sources = 3;
    in.run = withFormat<FFma, 3>(type, relu);
  } else if (name == "min") {
    in.run = nan ? withFormat<PropagateNan<FMin>, 2>(type, relu) : withFormat<FMin, 2>(type, relu);
  } else if (name == "max") {
    in.run = nan ? withFormat<PropagateNan<FMax>, 2>(type, relu) : withFormat<FMax, 2>(type, relu);
  } else if (name == "ex2") {
    sources = 1;
    in.run = withFormat<FEx2, 1>(type, relu);
  } else if (name == "tanh") {
    sources = 1;
    in.run = withFormat<FTanh, 1>(type, relu);
  } else if (name == "abs" || name == "neg") {
    sources = 1;
    const bool pair = bytesOf(type) == 4;
    if (name == "abs") {
      in.run = pair ? unary<SignBits<0x80008000u, true>, uint32_t> : unary<SignBits<0x8000u, true>, uint16_t>;
    } else {
      in.run =
          pair ? unary<SignBits<0x80008000u, false>, uint32_t> : unary<SignBits<0x8000u, false>, uint16_t>;
    }
  } else {
    d.fail("'" + std::string(name) + "' of 16-bit floats is not emulated");
  }
  operands(d, in, bytesOf(type), sources);
  return true;
}

} // namespace smelt::emu
