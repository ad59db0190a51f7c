#include "compiler/Codegen/CUDA/SamplingMath.h"

#include <cmath>

namespace smelt::codegen::cuda {

namespace {

// expNegative(): e^x for x <= 0 by IEEE operations alone, none of them fused; 0 below -708 and for NaN.
Value expNegative(Emitter &e, Value x) {
  Value normal = e.greater(x, e.d(-708));
  x = e.select(normal, x, e.d(0));
  constexpr double log2e = 0x1.71547652b82fep+0, ln2High = 0x1.62e42fee00000p-1,
                   ln2Low = 0x1.a39ef35793c76p-33;
  Value k = e.floor(e.addf(e.mulf(x, e.d(log2e)), e.d(0.5)));
  Value r = e.subf(e.subf(x, e.mulf(k, e.d(ln2High))), e.mulf(k, e.d(ln2Low)));
  double factorial = 6227020800; // 13!
  Value sum = e.d(1 / factorial);
  for (int n = 13; n >= 1; --n) {
    factorial /= n; // exact
    sum = e.addf(e.mulf(sum, r), e.d(1 / factorial));
  }
  // k lies in [-1021, 0], so that k + 1023 is positive.
  Value exponent = e.toUnsigned64(e.addf(k, e.d(1023)));
  return e.select(normal, e.mulf(sum, e.doubleFromBits(e.shl(exponent, 52))), e.d(0));
}

} // namespace

Value randomBits(Emitter &e, Value seed, Value stream, Value step) {
  auto high = [&](Value value) { return e.narrow(e.shr(value, 32)); };
  // Philox4x32-10.
  Value counter[] = {e.narrow(step), high(step), e.narrow(stream), high(stream)};
  Value key[] = {e.narrow(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    Value m0 = e.c(int32_t(0xD2511F53)), m1 = e.c(int32_t(0xCD9E8D57));
    Value highA = e.mulHigh(m0, counter[0]), lowA = e.mul(m0, counter[0]);
    Value highB = e.mulHigh(m1, counter[2]), lowB = e.mul(m1, counter[2]);
    Value next[] = {e.xori(e.xori(highB, counter[1]), key[0]), lowB,
                    e.xori(e.xori(highA, counter[3]), key[1]), lowA};
    std::copy(std::begin(next), std::end(next), counter);
    key[0] = e.add(key[0], int32_t(0x9E3779B9));
    key[1] = e.add(key[1], int32_t(0xBB67AE85));
  }
  return e.ori(e.shl(e.widenUnsigned(counter[0]), 32), e.widenUnsigned(counter[1]));
}

Value tokenWeight(Emitter &e, Value logit, Value best, Value inverseTemperature, unsigned shift) {
  Value gap = e.subf(e.toDouble(logit), e.toDouble(best));
  return e.toUnsigned64(
      e.mulf(expNegative(e, e.mulf(gap, inverseTemperature)), e.d(std::ldexp(1, int(shift)))));
}

} // namespace smelt::codegen::cuda
