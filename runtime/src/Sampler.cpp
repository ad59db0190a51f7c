#include "runtime/src/Sampler.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

namespace smelt::runtime {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * counter[0], b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ counter[3] ^ key[1],
               uint32_t(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

double uniform(uint64_t seed, uint64_t stream, uint64_t step) {
  std::array<uint32_t, 4> bits =
      philox({uint32_t(step), uint32_t(step >> 32), uint32_t(stream), uint32_t(stream >> 32)},
             {uint32_t(seed), uint32_t(seed >> 32)});
  uint64_t wide = (uint64_t(bits[0]) << 32 | bits[1]) >> 11;
  return double(wide) * 0x1p-53;
}

double expNegative(double x) {
  if (!(x > -708)) { // below, the result is subnormal: not a probability that matters
    return 0;
  }
  // x = k ln 2 + r with |r| <= ln(2)/2; ln 2 in two parts so that k * high is exact.
  constexpr double log2e = 0x1.71547652b82fep+0, ln2High = 0x1.62e42fee00000p-1,
                   ln2Low = 0x1.a39ef35793c76p-33;
  double k = std::floor(x * log2e + 0.5);
  double r = (x - k * ln2High) - k * ln2Low;
  // Taylor: the first term left out, r^14/14!, is below 1e-17.
  double sum = 1;
  for (int n = 13; n >= 1; --n) {
    sum = 1 + sum * r / n;
  }
  return sum * std::bit_cast<double>(uint64_t(int64_t(k) + 1023) << 52);
}

Status checkSampling(const smelt_sampling &sampling) {
  ProblemList problems;
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    problems.add(fmt::format("temperature is {}, must be 0 (greedy) or positive", sampling.temperature));
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    problems.add(fmt::format("top_p is {}, must be in (0, 1]", sampling.top_p));
  }
  return problems.empty() ? success()
                          : fail(SMELT_input, fmt::format("invalid sampling options:{}", problems.text()));
}

Result<int32_t> sample(std::span<const float> logits, const smelt_sampling &sampling, uint64_t stream,
                       uint64_t step) {
  if (Status status = checkSampling(sampling); !status.ok()) {
    return status;
  }
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      return fail(
          SMELT_weights,
          fmt::format("the logit of token {} is {}: the weights make the model overflow", i, logits[i]));
    }
    if (logits[i] > logits[best]) {
      best = i;
    }
  }
  if (sampling.temperature == 0) {
    return int32_t(best);
  }
  std::vector<double> weight(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    weight[i] = expNegative((double(logits[i]) - double(logits[best])) / sampling.temperature);
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
  });
  double total = 0;
  for (int32_t token : order) {
    total += weight[size_t(token)];
  }
  // Keep the most likely tokens up to a share of top_p, always one, then draw among them.
  size_t kept = 0;
  double mass = 0;
  while (kept < order.size() && (kept == 0 || mass < sampling.top_p * total)) {
    mass += weight[size_t(order[kept++])];
  }
  double target = uniform(sampling.seed, stream, step) * mass, sum = 0;
  for (size_t i = 0; i + 1 < kept; ++i) {
    sum += weight[size_t(order[i])];
    if (target < sum) {
      return order[i];
    }
  }
  return order[kept - 1];
}

} // namespace smelt::runtime
