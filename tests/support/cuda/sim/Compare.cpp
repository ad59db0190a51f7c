// setp, set, selp, slct, testp.
#include "tests/support/cuda/sim/FloatOps.h"
#include "tests/support/cuda/sim/Handlers.h"

namespace smelt::emu {
namespace {

enum class Relation : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };

/// Ordered comparisons are false for a NaN, the ...u ones true.
template <Relation R, class T> bool compare(T a, T b) {
  const bool unordered = a != a || b != b;
  switch (R) {
  case Relation::Eq:
    return a == b;
  case Relation::Ne:
    return !unordered && a != b;
  case Relation::Lt:
    return a < b;
  case Relation::Le:
    return a <= b;
  case Relation::Gt:
    return a > b;
  case Relation::Ge:
    return a >= b;
  case Relation::Equ:
    return unordered || a == b;
  case Relation::Neu:
    return a != b;
  case Relation::Ltu:
    return !(a >= b);
  case Relation::Leu:
    return !(a > b);
  case Relation::Gtu:
    return !(a <= b);
  case Relation::Geu:
    return !(a < b);
  case Relation::Num:
    return !unordered;
  case Relation::Nan:
    return unordered;
  }
  return false;
}

struct BitsOf {
  template <class S> static S load(S value) { return value; }
};
struct FlushedOf {
  static float load(float value) { return flush(value); }
};
struct F16Of {
  static float load(uint16_t value) { return f16ToFloat(value); }
};
struct Bf16Of {
  static float load(uint16_t value) { return bf16ToFloat(value); }
};

template <Relation R, class S, class Load> uint32_t compareLanes(Warp &warp, const Instr &in) {
  const S *a = warp.src<S>(in.a), *b = warp.src<S>(in.b);
  uint8_t flags[kWarpSize];
  SMELT_EACH_LANE
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    flags[i] = compare<R>(Load::load(a[i]), Load::load(b[i]));
  }
  uint32_t bits = 0;
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    bits |= uint32_t(flags[i]) << i;
  }
  return bits;
}

/// y combines with predicate c: 0 not at all, 1 and, 2 or, 3 xor. e is the second result.
template <Relation R, class S, class Load> Step setp(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint32_t bits = compareLanes<R, S, Load>(warp, in);
  uint32_t first = bits, second = ~bits;
  if (in.y) {
    const uint32_t c = warp.predicate(in.c);
    first = in.y == 1 ? first & c : in.y == 2 ? first | c : first ^ c;
    second = in.y == 1 ? second & c : in.y == 2 ? second | c : second ^ c;
  }
  warp.setPredicate(in.d, first, lanes);
  warp.setPredicate(in.e, second, lanes);
  return Step::Next;
}

/// set: a 32-bit mask (x == 0) or 1.0f.
template <Relation R, class S, class Load> Step set(Warp &warp, const Instr &in, uint32_t lanes) {
  uint32_t bits = compareLanes<R, S, Load>(warp, in);
  if (in.y) {
    const uint32_t c = warp.predicate(in.c);
    bits = in.y == 1 ? bits & c : in.y == 2 ? bits | c : bits ^ c;
  }
  storeLanes(warp.dst<uint32_t>(in.d), lanes,
             [&](uint32_t i) { return bits >> i & 1 ? (in.x ? 0x3f800000u : ~0u) : 0u; });
  return Step::Next;
}

/// f16x2 and bf16x2 give two predicates or a packed mask.
template <class Load> Step setpPair(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint32_t *a = warp.src<uint32_t>(in.a), *b = warp.src<uint32_t>(in.b);
  uint32_t bits[2] = {0, 0};
  const auto holds = [&](float x, float y) {
    switch (static_cast<Relation>(in.x)) {
    case Relation::Eq:
      return compare<Relation::Eq>(x, y);
    case Relation::Ne:
      return compare<Relation::Ne>(x, y);
    case Relation::Lt:
      return compare<Relation::Lt>(x, y);
    case Relation::Le:
      return compare<Relation::Le>(x, y);
    case Relation::Gt:
      return compare<Relation::Gt>(x, y);
    default:
      return compare<Relation::Ge>(x, y);
    }
  };
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    for (int half = 0; half < 2; ++half) {
      const auto x = static_cast<uint16_t>(a[i] >> (16 * half)),
                 y = static_cast<uint16_t>(b[i] >> (16 * half));
      bits[half] |= uint32_t(holds(Load::load(x), Load::load(y))) << i;
    }
  }
  warp.setPredicate(in.d, bits[0], lanes);
  warp.setPredicate(in.e, bits[1], lanes);
  return Step::Next;
}

struct Chosen {
  Handler predicate = nullptr, mask = nullptr;
};

template <class S, class Load> Chosen choose(int relation) {
#define SMELT_RELATION(R)                                                                                    \
  case static_cast<int>(Relation::R):                                                                        \
    return {setp<Relation::R, S, Load>, set<Relation::R, S, Load>};
  switch (relation) {
    SMELT_RELATION(Eq)
    SMELT_RELATION(Ne)
    SMELT_RELATION(Lt)
    SMELT_RELATION(Le)
    SMELT_RELATION(Gt)
    SMELT_RELATION(Ge)
    SMELT_RELATION(Equ)
    SMELT_RELATION(Neu)
    SMELT_RELATION(Ltu)
    SMELT_RELATION(Leu)
    SMELT_RELATION(Gtu)
    SMELT_RELATION(Geu)
    SMELT_RELATION(Num)
    SMELT_RELATION(Nan)
  default:
    return {};
  }
#undef SMELT_RELATION
}

struct Comparison {
  int relation = -1, combine = 0;
  bool ftz = false;
};

Comparison takeComparison(Decoding &d) {
  Comparison c;
  const std::string_view name = d.peek();
  c.relation =
      d.oneOf({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (c.relation < 0) {
    // lo, ls, hi, hs are the unsigned names of lt, le, gt, ge.
    constexpr int kUnsigned[] = {2, 3, 4, 5};
    const int alias = d.oneOf({"lo", "ls", "hi", "hs"});
    if (alias < 0) {
      d.fail("unknown comparison '" + std::string(name) + "'");
    }
    c.relation = kUnsigned[alias];
  }
  c.combine = d.oneOf({"and", "or", "xor"}) + 1;
  c.ftz = d.take("ftz");
  return c;
}

Chosen chooseFor(const Decoding &d, const Comparison &c, Type type) {
  Chosen chosen;
  switch (type) {
  case Type::F32:
    return c.ftz ? choose<float, FlushedOf>(c.relation) : choose<float, BitsOf>(c.relation);
  case Type::F64:
    return choose<double, BitsOf>(c.relation);
  case Type::F16:
    return choose<uint16_t, F16Of>(c.relation);
  case Type::BF16:
    return choose<uint16_t, Bf16Of>(c.relation);
  default:
    // A NaN-aware relation has no meaning for integers; ne is plain there.
    withInteger(d, type, [&](auto t) { chosen = choose<decltype(t), BitsOf>(c.relation); });
    return chosen;
  }
}

void decodeSetp(Decoding &d, Instr &in) {
  const Comparison c = takeComparison(d);
  const Type type = d.takeType();
  d.done();
  d.expectCount(c.combine ? 4 : 3, c.combine ? 4 : 3);
  if (type == Type::F16x2 || type == Type::BF16x2) {
    in.run = type == Type::F16x2 ? setpPair<F16Of> : setpPair<Bf16Of>;
    in.x = static_cast<uint32_t>(c.relation);
    if (c.relation > 5 || c.combine) {
      d.fail("this comparison of pairs is not emulated");
    }
  } else {
    in.run = chooseFor(d, c, type).predicate;
  }
  in.d = d.predicateDest(d.operand(0));
  if (d.operand(0).paired) {
    in.e = d.predicateDest(d.operand(0).parts[0]);
  }
  in.a = d.source(1, bytesOf(type), type);
  in.b = d.source(2, bytesOf(type), type);
  in.y = static_cast<uint32_t>(c.combine);
  in.c = c.combine ? d.predicateSource(3) : kNoRef;
}

void decodeSet(Decoding &d, Instr &in) {
  const Comparison c = takeComparison(d);
  const Type result = d.takeType(), type = d.takeType();
  d.done();
  if (bytesOf(result) != 4 || bytesOf(type) == 0) {
    d.fail("this form of set is not emulated");
  }
  in.run = chooseFor(d, c, type).mask;
  in.x = result == Type::F32;
  in.d = d.dest(0, 4);
  in.a = d.source(1, bytesOf(type), type);
  in.b = d.source(2, bytesOf(type), type);
  in.y = static_cast<uint32_t>(c.combine);
  in.c = c.combine ? d.predicateSource(3) : kNoRef;
}

template <class T> Step select(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a), *b = warp.src<T>(in.b);
  const uint32_t p = warp.predicate(in.c);
  storeLanes(warp.dst<T>(in.d), lanes, [&](uint32_t i) { return p >> i & 1 ? a[i] : b[i]; });
  return Step::Next;
}

void decodeSelp(Decoding &d, Instr &in) {
  const Type type = d.takeType();
  const uint32_t bytes = bytesOf(type);
  d.done();
  in.run = bytes == 8 ? select<uint64_t> : bytes == 4 ? select<uint32_t> : select<uint16_t>;
  in.d = d.dest(0, bytes);
  in.a = d.source(1, bytes, type);
  in.b = d.source(2, bytes, type);
  in.c = d.predicateSource(3);
}

template <class T, class C> Step slct(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a), *b = warp.src<T>(in.b);
  const C *c = warp.src<C>(in.c);
  storeLanes(warp.dst<T>(in.d), lanes, [&](uint32_t i) { return c[i] >= C(0) ? a[i] : b[i]; });
  return Step::Next;
}

void decodeSlct(Decoding &d, Instr &in) {
  d.take("ftz");
  const uint32_t bytes = bytesOf(d.takeType());
  const Type by = d.takeType();
  d.done();
  if (bytes < 4 || (by != Type::S32 && by != Type::F32)) {
    d.fail("this form of slct is not emulated");
  }
  if (by == Type::S32) {
    in.run = bytes == 8 ? slct<uint64_t, int32_t> : slct<uint32_t, int32_t>;
  } else {
    in.run = bytes == 8 ? slct<uint64_t, float> : slct<uint32_t, float>;
  }
  in.d = d.dest(0, bytes);
  in.a = d.source(1, bytes);
  in.b = d.source(2, bytes);
  in.c = d.source(3, 4, by);
}

template <class T> Step testp(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a);
  uint32_t bits = 0;
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    const int kind = std::fpclassify(a[i]);
    const bool holds[] = {kind != FP_NAN && kind != FP_INFINITE,
                          kind == FP_INFINITE,
                          kind != FP_NAN,
                          kind == FP_NAN,
                          kind == FP_NORMAL,
                          kind == FP_SUBNORMAL};
    bits |= uint32_t(holds[in.x]) << i;
  }
  warp.setPredicate(in.d, bits, lanes);
  return Step::Next;
}

void decodeTestp(Decoding &d, Instr &in) {
  const int kind = d.oneOf({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  const Type type = d.takeType();
  d.done();
  if (kind < 0) {
    d.fail("malformed testp");
  }
  in.x = static_cast<uint32_t>(kind);
  in.run = type == Type::F64 ? testp<double> : testp<float>;
  in.d = d.predicateDest(d.operand(0));
  in.a = d.source(1, bytesOf(type), type);
}

} // namespace

void addCompare(DecodeTable &table) {
  table["setp"] = decodeSetp;
  table["set"] = decodeSet;
  table["selp"] = decodeSelp;
  table["slct"] = decodeSlct;
  table["testp"] = decodeTestp;
}

} // namespace smelt::emu
