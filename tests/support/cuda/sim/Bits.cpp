// Logic, shifts and bit fields.
#include "tests/support/cuda/sim/Handlers.h"

namespace smelt::emu {
namespace {

struct And {
  template <class T> static T apply(T a, T b) { return a & b; }
};
struct Or {
  template <class T> static T apply(T a, T b) { return a | b; }
};
struct Xor {
  template <class T> static T apply(T a, T b) { return a ^ b; }
};
struct Not {
  template <class T> static T apply(T a) { return static_cast<T>(~a); }
};
struct Cnot {
  template <class T> static T apply(T a) { return a == 0; }
};
struct Popc {
  template <class T> static uint32_t apply(T a) { return static_cast<uint32_t>(std::popcount(a)); }
};
struct Clz {
  template <class T> static uint32_t apply(T a) { return static_cast<uint32_t>(std::countl_zero(a)); }
};
/// Position of the highest bit that differs from the sign; all ones if there is none.
template <bool Amount> struct Bfind {
  template <class T> static uint32_t apply(T a) {
    using U = std::make_unsigned_t<T>;
    U bits = static_cast<U>(a);
    if (std::is_signed_v<T> && a < 0) {
      bits = static_cast<U>(~bits);
    }
    if (!bits) {
      return ~0u;
    }
    const auto zeros = static_cast<uint32_t>(std::countl_zero(bits));
    return Amount ? zeros : static_cast<uint32_t>(8 * sizeof(T)) - 1 - zeros;
  }
};
struct Brev {
  template <class T> static T apply(T a) {
    T result = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) {
      result = static_cast<T>(result << 1 | (a >> i & 1));
    }
    return result;
  }
};
struct Bfe {
  template <class T> static T apply(T a, uint32_t position, uint32_t length) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    using U = std::make_unsigned_t<T>;
    position &= 255;
    length &= 255;
    const bool sign = std::is_signed_v<T> && length && a >> std::min(position + length - 1, kBits - 1) & 1;
    U field = position < kBits ? static_cast<U>(static_cast<U>(a) >> position) : U(0);
    if (length < kBits) {
      const U mask = static_cast<U>((U(1) << length) - 1);
      const uint32_t there = position < kBits ? std::min(length, kBits - position) : 0;
      const U valid = there >= kBits ? ~U(0) : static_cast<U>((U(1) << there) - 1);
      field = static_cast<U>(field & mask);
      return static_cast<T>(sign ? field | static_cast<U>(~valid) : field);
    }
    const uint32_t there = position < kBits ? kBits - position : 0;
    const U valid = there >= kBits ? ~U(0) : static_cast<U>((U(1) << there) - 1);
    return static_cast<T>(sign ? field | static_cast<U>(~valid) : field);
  }
};
struct Lop3 {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      if (table >> i & 1) {
        result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
      }
    }
    return result;
  }
};

/// The amount is a 32-bit register whatever the type; amounts past the width shift everything out.
template <class T, bool Left> Step shift(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a);
  const uint32_t *b = warp.src<uint32_t>(in.b);
  constexpr uint32_t kBits = 8 * sizeof(T);
  storeLanes(warp.dst<T>(in.d), lanes, [&](uint32_t i) {
    const uint32_t by = b[i];
    if (Left) {
      return by < kBits ? static_cast<T>(uint64_t(a[i]) << by) : T(0);
    }
    const T shifted = static_cast<T>(a[i] >> (by < kBits - 1 ? by : kBits - 1));
    return by < kBits || std::is_signed_v<T> ? shifted : T(0);
  });
  return Step::Next;
}

template <class T> Step extract(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a);
  const uint32_t *b = warp.src<uint32_t>(in.b), *c = warp.src<uint32_t>(in.c);
  storeLanes(warp.dst<T>(in.d), lanes, [&](uint32_t i) { return Bfe::apply(a[i], b[i], c[i]); });
  return Step::Next;
}

template <class T> Step insert(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a), *b = warp.src<T>(in.b);
  const uint32_t *c = warp.src<uint32_t>(in.c), *e = warp.src<uint32_t>(in.e);
  constexpr uint32_t kBits = 8 * sizeof(T);
  storeLanes(warp.dst<T>(in.d), lanes, [&](uint32_t i) {
    const uint32_t position = c[i] & 255, length = e[i] & 255;
    if (position >= kBits || length == 0) {
      return b[i];
    }
    const T ones = length >= kBits ? ~T(0) : static_cast<T>((T(1) << length) - 1);
    const T mask = static_cast<T>(ones << position);
    return static_cast<T>((b[i] & ~mask) | (static_cast<T>(a[i] << position) & mask));
  });
  return Step::Next;
}

/// shf.l and shf.r: x is right, y is clamp.
Step funnel(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint32_t *a = warp.src<uint32_t>(in.a), *b = warp.src<uint32_t>(in.b), *c = warp.src<uint32_t>(in.c);
  storeLanes(warp.dst<uint32_t>(in.d), lanes, [&](uint32_t i) {
    const uint32_t by = in.y ? std::min(c[i], 32u) : c[i] & 31;
    const uint64_t both = a[i] | uint64_t(b[i]) << 32;
    return static_cast<uint32_t>(in.x ? both >> by : (both << by) >> 32);
  });
  return Step::Next;
}

/// x: 0 the default mode, else f4e, b4e, rc8, ecl, ecr, rc16.
Step permute(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint32_t *a = warp.src<uint32_t>(in.a), *b = warp.src<uint32_t>(in.b), *c = warp.src<uint32_t>(in.c);
  storeLanes(warp.dst<uint32_t>(in.d), lanes, [&](uint32_t i) {
    const uint64_t both = a[i] | uint64_t(b[i]) << 32;
    const uint32_t s = c[i] & 3;
    uint32_t result = 0;
    for (uint32_t byte = 0; byte < 4; ++byte) {
      const uint32_t select[] = {c[i] >> (4 * byte) & 7, s + byte,          (s - byte) & 7,          s,
                                 std::max(byte, s),      std::min(byte, s), (s & 1) * 2 + (byte & 1)};
      uint32_t value = static_cast<uint32_t>(both >> (8 * select[in.x])) & 255;
      if (in.x == 0 && c[i] >> (4 * byte + 3) & 1) {
        value = value & 128 ? 255 : 0;
      }
      result |= value << (8 * byte);
    }
    return result;
  });
  return Step::Next;
}

template <uint32_t Op> Step logicPredicate(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint32_t a = warp.predicate(in.a), b = Op == 3 ? 0 : warp.predicate(in.b);
  warp.setPredicate(in.d, Op == 0 ? a & b : Op == 1 ? a | b : Op == 2 ? a ^ b : ~a, lanes);
  return Step::Next;
}

Step lop3(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint32_t *a = warp.src<uint32_t>(in.a), *b = warp.src<uint32_t>(in.b), *c = warp.src<uint32_t>(in.c);
  storeLanes(warp.dst<uint32_t>(in.d), lanes,
             [&](uint32_t i) { return Lop3::apply(a[i], b[i], c[i], in.x); });
  return Step::Next;
}

template <class Op, uint32_t Predicates> void decodeLogic(Decoding &d, Instr &in) {
  const Type type = d.takeType();
  if (type == Type::Pred) {
    d.done();
    in.run = logicPredicate<Predicates>;
    in.d = d.predicateDest(d.operand(0));
    in.a = d.predicateSource(1);
    in.b = Predicates == 3 ? kNoRef : d.predicateSource(2);
    return;
  }
  const uint32_t bytes = bytesOf(type);
  if constexpr (Predicates == 3) {
    in.run = bytes == 2 ? unary<Op, uint16_t> : bytes == 4 ? unary<Op, uint32_t> : unary<Op, uint64_t>;
  } else {
    in.run = bytes == 2 ? binary<Op, uint16_t> : bytes == 4 ? binary<Op, uint32_t> : binary<Op, uint64_t>;
  }
  operands(d, in, bytes, Predicates == 3 ? 1 : 2);
}

template <bool Left> void decodeShift(Decoding &d, Instr &in) {
  const Type type = d.takeType();
  d.done();
  d.expectCount(3, 3);
  withInteger(d, type, [&](auto t) { in.run = shift<decltype(t), Left>; });
  in.d = d.dest(0, bytesOf(type));
  in.a = d.source(1, bytesOf(type));
  in.b = d.source(2, 4);
}

void decodeBfe(Decoding &d, Instr &in) {
  const Type type = d.takeType();
  d.done();
  withInteger(d, type, [&](auto t) { in.run = extract<decltype(t)>; });
  in.d = d.dest(0, bytesOf(type));
  in.a = d.source(1, bytesOf(type));
  in.b = d.source(2, 4);
  in.c = d.source(3, 4);
}

void decodeBfi(Decoding &d, Instr &in) {
  const uint32_t bytes = bytesOf(d.takeType());
  d.done();
  in.run = bytes == 8 ? insert<uint64_t> : insert<uint32_t>;
  in.d = d.dest(0, bytes);
  in.a = d.source(1, bytes);
  in.b = d.source(2, bytes);
  in.c = d.source(3, 4);
  in.e = d.source(4, 4);
}

void decodeShf(Decoding &d, Instr &in) {
  const int side = d.oneOf({"l", "r"}), mode = d.oneOf({"clamp", "wrap"});
  if (side < 0 || mode < 0) {
    d.fail("malformed shf");
  }
  d.takeType();
  in.run = funnel;
  in.x = side == 1;
  in.y = mode == 0;
  operands(d, in, 4, 3);
}

void decodePrmt(Decoding &d, Instr &in) {
  d.takeType();
  in.x = static_cast<uint32_t>(d.oneOf({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1);
  in.run = permute;
  operands(d, in, 4, 3);
}

void decodeLop3(Decoding &d, Instr &in) {
  d.takeType();
  d.done();
  in.run = lop3;
  in.d = d.dest(0, 4);
  in.a = d.source(1, 4);
  in.b = d.source(2, 4);
  in.c = d.source(3, 4);
  in.x = static_cast<uint32_t>(d.integer(4));
}

/// Counting instructions give 32 bits whatever the source.
template <class Op> void decodeCounting(Decoding &d, Instr &in) {
  const Type type = d.takeType();
  d.done();
  withInteger(d, type, [&](auto t) {
    using T = std::conditional_t<std::is_same_v<Op, Bfind<false>> || std::is_same_v<Op, Bfind<true>>,
                                 decltype(t), std::make_unsigned_t<decltype(t)>>;
    in.run = unary<Op, uint32_t, T>;
  });
  in.d = d.dest(0, 4);
  in.a = d.source(1, bytesOf(type));
}

void decodeBfind(Decoding &d, Instr &in) {
  d.take("shiftamt") ? decodeCounting<Bfind<true>>(d, in) : decodeCounting<Bfind<false>>(d, in);
}

template <class Op> void decodeUnaryBits(Decoding &d, Instr &in) {
  const uint32_t bytes = bytesOf(d.takeType());
  in.run = bytes == 8 ? unary<Op, uint64_t> : bytes == 4 ? unary<Op, uint32_t> : unary<Op, uint16_t>;
  operands(d, in, bytes, 1);
}

} // namespace

void addBits(DecodeTable &table) {
  table["and"] = decodeLogic<And, 0>;
  table["or"] = decodeLogic<Or, 1>;
  table["xor"] = decodeLogic<Xor, 2>;
  table["not"] = decodeLogic<Not, 3>;
  table["cnot"] = decodeUnaryBits<Cnot>;
  table["brev"] = decodeUnaryBits<Brev>;
  table["shl"] = decodeShift<true>;
  table["shr"] = decodeShift<false>;
  table["bfe"] = decodeBfe;
  table["bfi"] = decodeBfi;
  table["shf"] = decodeShf;
  table["prmt"] = decodePrmt;
  table["lop3"] = decodeLop3;
  table["popc"] = decodeCounting<Popc>;
  table["clz"] = decodeCounting<Clz>;
  table["bfind"] = decodeBfind;
}

} // namespace smelt::emu
