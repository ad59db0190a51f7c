// atom, red, fence, membar. One lane after the other, so every atomic is one; the order is the lanes'.
#include "tests/support/cuda/sim/Access.h"
#include "tests/support/cuda/sim/FloatOps.h"
#include "tests/support/cuda/sim/Handlers.h"

#include <cstring>

namespace smelt::emu {
namespace {

enum class AtomicOp : uint8_t { And, Or, Xor, Cas, Exch, Add, Inc, Dec, Min, Max };

template <class T> T apply(AtomicOp op, T old, T b, T c) {
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
    case AtomicOp::And:
      return old & b;
    case AtomicOp::Or:
      return old | b;
    case AtomicOp::Xor:
      return old ^ b;
    case AtomicOp::Inc:
      return old >= b ? T(0) : static_cast<T>(old + 1);
    case AtomicOp::Dec:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
    case AtomicOp::Add:
      return static_cast<T>(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(b));
    default:
      break;
    }
  }
  switch (op) {
  case AtomicOp::Add:
    return static_cast<T>(old + b);
  case AtomicOp::Min:
    return b < old ? b : old;
  case AtomicOp::Max:
    return b > old ? b : old;
  case AtomicOp::Exch:
    return b;
  case AtomicOp::Cas:
    return old == b ? c : old;
  default:
    return old;
  }
}

/// Formats that are computed as floats and stored as bits, one or two in a word.
template <class Bits, float (*Widen)(uint16_t), uint16_t (*Narrow)(float)>
Bits applyHalf(AtomicOp op, Bits old, Bits b) {
  Bits result = 0;
  for (uint32_t half = 0; half < sizeof(Bits) / 2; ++half) {
    const float x = Widen(static_cast<uint16_t>(old >> (16 * half))),
                y = Widen(static_cast<uint16_t>(b >> (16 * half)));
    const float value = op == AtomicOp::Add   ? x + y
                        : op == AtomicOp::Min ? FMin::apply(x, y)
                                              : FMax::apply(x, y);
    result = static_cast<Bits>(result | static_cast<Bits>(Narrow(value)) << (16 * half));
  }
  return result;
}

struct F16Word {
  template <class T> static T run(AtomicOp op, T old, T b, T) {
    return applyHalf<T, f16ToFloat, floatToF16>(op, old, b);
  }
};
struct Bf16Word {
  template <class T> static T run(AtomicOp op, T old, T b, T) {
    return applyHalf<T, bf16ToFloat, floatToBf16>(op, old, b);
  }
};
struct Plain {
  template <class T> static T run(AtomicOp op, T old, T b, T c) { return apply(op, old, b, c); }
};

/// x: operation. y: bit 0 release, bit 1 acquire. d may be absent (red).
template <class T, class How> Step atomic(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t addresses[kWarpSize];
  laneAddresses(warp, in, addresses);
  const auto op = static_cast<AtomicOp>(in.x);
  const T *b = warp.src<T>(in.b), *c = in.c == kNoRef ? b : warp.src<T>(in.c);
  bool changed = false;
  eachLane(lanes, [&](uint32_t lane) {
    const bool global = in.space == Space::Global ||
                        (in.space == Space::Generic && addresses[lane] >> kWindowShift <= kDeviceWindow);
    uint8_t *at =
        resolveRange(warp, in, lane, in.space, addresses[lane], sizeof(T), sizeof(T), kWrite | kAtomic);
    T old;
    std::memcpy(&old, at, sizeof(T));
    const T value = How::template run<T>(op, old, b[lane], c[lane]);
    std::memcpy(at, &value, sizeof(T));
    changed |= std::memcmp(&old, &value, sizeof(T)) != 0;
    if (in.d != kNoRef) {
      warp.dst<T>(in.d)[lane] = old;
    }
    if (warp.cta->checker && global) {
      atomicGlobal(warp, addresses[lane], in.y & 1, in.y & 2, true);
    }
  });
  warp.cta->progress += changed;
  // An exchange or comparison that changes nothing is a lock being polled.
  return changed ? Step::Next : Step::Yield;
}

template <class How> Handler ofWidth(const Decoding &d, Type type) {
  Handler result = nullptr;
  if (bytesOf(type) == 2 && !isFloat(type)) {
    return atomic<uint16_t, How>;
  }
  withInteger(d, type, [&](auto t) { result = atomic<decltype(t), How>; });
  return result;
}

Handler handlerOf(const Decoding &d, Type type) {
  switch (type) {
  case Type::F32:
    return atomic<float, Plain>;
  case Type::F64:
    return atomic<double, Plain>;
  case Type::F16:
    return atomic<uint16_t, F16Word>;
  case Type::F16x2:
    return atomic<uint32_t, F16Word>;
  case Type::BF16:
    return atomic<uint16_t, Bf16Word>;
  case Type::BF16x2:
    return atomic<uint32_t, Bf16Word>;
  default:
    return ofWidth<Plain>(d, type);
  }
}

void decodeAtomic(Decoding &d, Instr &in, bool returns) {
  int op = -1;
  for (;;) {
    if (d.take("acquire")) {
      in.y |= 2;
    } else if (d.take("release")) {
      in.y |= 1;
    } else if (d.take("acq_rel")) {
      in.y |= 3;
    } else if (d.take("global")) {
      in.space = Space::Global;
    } else if (d.take("shared") || d.take("shared::cta") || d.take("shared::cluster")) {
      in.space = Space::Shared;
    } else if (d.oneOf({"relaxed", "cta", "cluster", "gpu", "sys", "noftz", "L2::cache_hint"}) >= 0) {
      continue;
    } else if (op < 0 &&
               (op = d.oneOf({"and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max"})) >= 0) {
      continue;
    } else {
      break;
    }
  }
  const Type type = d.takeType();
  d.done();
  if (op < 0) {
    d.fail("unknown atomic operation");
  }
  in.x = static_cast<uint32_t>(op);
  in.run = handlerOf(d, type);
  const uint32_t bytes = bytesOf(type);
  const size_t address = returns ? 1 : 0;
  if (returns) {
    in.d = d.operand(0).kind == OperandKind::Discard ? kNoRef : d.dest(0, bytes);
  }
  d.address(in, address);
  in.b = d.source(address + 1, bytes, type);
  if (op == static_cast<int>(AtomicOp::Cas)) {
    in.c = d.source(address + 2, bytes, type);
  }
}

/// x: orders global memory (not only the CTA).
Step fence(Warp &warp, const Instr &in, uint32_t) {
  if (warp.cta->checker && in.x) {
    fenceGlobal(warp);
  }
  return Step::Next;
}

Step proxyFence(Warp &warp, const Instr &, uint32_t) {
  if (warp.cta->checker) {
    warp.cta->checker->proxyFence(warp);
  }
  return Step::Next;
}

void decodeFence(Decoding &d, Instr &in) {
  in.run = fence;
  if (d.take("proxy")) {
    in.run = proxyFence;
    if (d.oneOf({"async", "alias"}) < 0) {
      d.fail("this proxy fence is not emulated");
    }
    d.ignore({"global", "shared::cta", "shared::cluster"});
  } else if (d.take("mbarrier_init")) {
    d.ignore({"release", "cluster"});
  } else {
    d.oneOf({"sc", "acq_rel", "acquire", "release"});
    in.x = d.oneOf({"cta", "cluster", "gpu", "sys"}) >= 2;
  }
  d.done();
}

void decodeMembar(Decoding &d, Instr &in) {
  const int level = d.oneOf({"cta", "gl", "sys"});
  d.done();
  in.run = fence;
  in.x = level >= 1;
}

} // namespace

void addAtomics(DecodeTable &table) {
  table["atom"] = [](Decoding &d, Instr &in) { decodeAtomic(d, in, true); };
  table["red"] = [](Decoding &d, Instr &in) {
    if (d.peek() == "async") {
      d.fail("red.async is not emulated");
    }
    decodeAtomic(d, in, false);
  };
  table["fence"] = decodeFence;
  table["membar"] = decodeMembar;
}

} // namespace smelt::emu
