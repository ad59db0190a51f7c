#include "tests/support/cuda/sim/Rounded.h"

#include "tests/support/cuda/sim/FloatOps.h"
#include "tests/support/cuda/sim/Handlers.h"

#include <cfenv>

namespace smelt::emu {
namespace {

class RoundingMode {
public:
  explicit RoundingMode(uint32_t mode) : old(std::fegetround()) {
    constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(kModes[mode & 3]);
  }
  ~RoundingMode() { std::fesetround(old); }

private:
  int old;
};

template <class T, RoundedOp Op> T compute(T a, T b, T c) {
  // volatile: the operation must happen between the two changes of the mode.
  volatile T x = a, y = b, z = c, result;
  switch (Op) {
  case RoundedOp::Add:
    result = x + y;
    break;
  case RoundedOp::Sub:
    result = x - y;
    break;
  case RoundedOp::Mul:
    result = x * y;
    break;
  case RoundedOp::Div:
    result = x / y;
    break;
  case RoundedOp::Fma:
    result = std::fma(T(x), T(y), T(z));
    break;
  case RoundedOp::Rcp:
    result = T(1) / x;
    break;
  case RoundedOp::Sqrt:
    result = std::sqrt(T(x));
    break;
  }
  return result;
}

template <class T, RoundedOp Op> Step rounded(Warp &warp, const Instr &in, uint32_t lanes) {
  const RoundingMode mode(in.x);
  const auto get = [&](Ref ref, uint32_t lane) {
    const T value = ref == kNoRef ? T(0) : warp.src<T>(ref)[lane];
    return in.y && sizeof(T) == 4 ? static_cast<T>(flush(static_cast<float>(value))) : value;
  };
  eachLane(lanes, [&](uint32_t lane) {
    T value = compute<T, Op>(get(in.a, lane), get(in.b, lane), get(in.c, lane));
    if (in.y && sizeof(T) == 4) {
      value = static_cast<T>(flush(static_cast<float>(value)));
    }
    if (in.z) {
      value = value > T(0) ? (value < T(1) ? value : T(1)) : T(0);
    }
    warp.dst<T>(in.d)[lane] = value;
  });
  return Step::Next;
}

template <RoundedOp Op> Handler choose(bool f64) { return f64 ? rounded<double, Op> : rounded<float, Op>; }

} // namespace

Handler roundedHandler(RoundedOp op, bool f64) {
  switch (op) {
  case RoundedOp::Add:
    return choose<RoundedOp::Add>(f64);
  case RoundedOp::Sub:
    return choose<RoundedOp::Sub>(f64);
  case RoundedOp::Mul:
    return choose<RoundedOp::Mul>(f64);
  case RoundedOp::Div:
    return choose<RoundedOp::Div>(f64);
  case RoundedOp::Fma:
    return choose<RoundedOp::Fma>(f64);
  case RoundedOp::Rcp:
    return choose<RoundedOp::Rcp>(f64);
  case RoundedOp::Sqrt:
    return choose<RoundedOp::Sqrt>(f64);
  }
  return nullptr;
}

float narrowRounded(double value, uint32_t mode) {
  const RoundingMode scope(mode);
  volatile double wide = value;
  volatile float narrow = static_cast<float>(wide);
  return narrow;
}

} // namespace smelt::emu
