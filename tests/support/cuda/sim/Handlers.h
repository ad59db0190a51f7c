// Templates that turn a function of scalars into a handler over 32 lanes.
#pragma once

#include "tests/support/cuda/sim/Groups.h"

#include <bit>
#include <type_traits>

// Registers never overlap partly, so lanes are independent whatever the operands.
#if defined(__clang__)
#define SMELT_EACH_LANE _Pragma("clang loop vectorize(assume_safety)")
#else
#define SMELT_EACH_LANE _Pragma("GCC ivdep")
#endif

namespace smelt::emu {

template <class D, class Fn> inline void storeLanes(D *to, uint32_t lanes, Fn value) {
  if (lanes == ~0u) {
    SMELT_EACH_LANE
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      to[lane] = value(lane);
    }
    return;
  }
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if (lanes >> lane & 1) {
      to[lane] = value(lane);
    }
  }
}

template <class Fn> inline void eachLane(uint32_t lanes, Fn fn) {
  for (; lanes; lanes &= lanes - 1) {
    fn(firstLane(lanes));
  }
}

/// d = Op(a), Op(a, b), Op(a, b, c); S is the type of the sources, D of the result.
template <class Op, class D, class S = D> Step unary(Warp &warp, const Instr &in, uint32_t lanes) {
  const S *a = warp.src<S>(in.a);
  storeLanes(warp.dst<D>(in.d), lanes, [&](uint32_t i) { return static_cast<D>(Op::apply(a[i])); });
  return Step::Next;
}

template <class Op, class D, class S = D> Step binary(Warp &warp, const Instr &in, uint32_t lanes) {
  const S *a = warp.src<S>(in.a), *b = warp.src<S>(in.b);
  storeLanes(warp.dst<D>(in.d), lanes, [&](uint32_t i) { return static_cast<D>(Op::apply(a[i], b[i])); });
  return Step::Next;
}

template <class Op, class D, class S = D, class C = D>
Step ternary(Warp &warp, const Instr &in, uint32_t lanes) {
  const S *a = warp.src<S>(in.a), *b = warp.src<S>(in.b);
  const C *c = warp.src<C>(in.c);
  storeLanes(warp.dst<D>(in.d), lanes,
             [&](uint32_t i) { return static_cast<D>(Op::apply(a[i], b[i], c[i])); });
  return Step::Next;
}

/// Calls `fn` with a value of the C++ type that `type` stands for: bits as unsigned integers.
template <class Fn> void withInteger(const Decoding &d, Type type, Fn fn) {
  switch (type) {
  case Type::B16:
  case Type::U16:
    return fn(uint16_t());
  case Type::S16:
    return fn(int16_t());
  case Type::B32:
  case Type::U32:
    return fn(uint32_t());
  case Type::S32:
    return fn(int32_t());
  case Type::B64:
  case Type::U64:
    return fn(uint64_t());
  case Type::S64:
    return fn(int64_t());
  default:
    d.fail("no integer type of 16, 32 or 64 bits");
  }
}

/// Operands d, a and b, a, b and c of one width.
inline void operands(Decoding &d, Instr &in, uint32_t bytes, size_t sources, Type immediate_as = Type::B64) {
  d.done();
  d.expectCount(sources + 1, sources + 1);
  in.d = d.dest(0, bytes);
  Ref Instr::*const slots[] = {&Instr::a, &Instr::b, &Instr::c, &Instr::e};
  for (size_t i = 0; i < sources; ++i) {
    in.*slots[i] = d.source(i + 1, bytes, immediate_as);
  }
}

} // namespace smelt::emu
