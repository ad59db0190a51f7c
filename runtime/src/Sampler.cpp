#include "runtime/src/Sampler.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

namespace smelt::runtime {

namespace {

// 1/n! for n = 13 to 0, of the Taylor series: the first term left out, r^14/14!, is below 1e-17. A kernel on
// a GPU (compiler/Codegen/CUDA/Sampling.cpp) takes the same steps.
constexpr double expCoefficients[] = {
    1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
    1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};

} // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * counter[0], b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ counter[3] ^ key[1],
               uint32_t(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t step) {
  std::array<uint32_t, 4> bits =
      philox({uint32_t(step), uint32_t(step >> 32), uint32_t(stream), uint32_t(stream >> 32)},
             {uint32_t(seed), uint32_t(seed >> 32)});
  return uint64_t(bits[0]) << 32 | bits[1];
}

DrawLimits drawLimits(const smelt_sampling &sampling) {
  DrawLimits limits;
  if (sampling.temperature > 0) {
    limits.inverseTemperature = std::min(1 / sampling.temperature, 1e300); // so that 0 times it is 0
  }
  if (sampling.top_p < 1) {
    limits.share = std::max<uint64_t>(uint64_t(sampling.top_p * 0x1p64), 1);
  }
  limits.topK = sampling.top_k;
  return limits;
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
  double sum = 0;
  for (double coefficient : expCoefficients) {
    sum = sum * r + coefficient;
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

Status badLogit(size_t token) {
  return fail(SMELT_weights,
              fmt::format("the logit of token {} is not finite: the weights make the model overflow", token));
}

namespace {

// The most significant half of the product.
uint64_t mulHigh(uint64_t a, uint64_t b) { return uint64_t(static_cast<unsigned __int128>(a) * b >> 64); }

class Draw {
public:
  Draw(std::span<const float> logits, size_t best, const DrawLimits &limits)
      : logits(logits), limits(limits) {
    weights.reserve(logits.size());
    double unit = std::ldexp(1, int(weightShift(uint32_t(logits.size()))));
    for (float logit : logits) {
      double gap = double(logit) - double(logits[best]);
      weights.push_back(uint64_t(expNegative(gap * limits.inverseTemperature) * unit));
    }
  }

  int32_t run(uint64_t random) {
    restrict();
    uint64_t target = mulHigh(random, std::accumulate(weights.begin(), weights.end(), uint64_t(0)));
    uint64_t sum = 0;
    size_t token = 0;
    while ((sum += weights[token]) <= target) {
      ++token;
    }
    return int32_t(token);
  }

private:
  // Takes the weight from tokens that are not kept.
  void restrict() {
    bool some = limits.topK != 0 && limits.topK < logits.size();
    if (!some && limits.share == 0) {
      return;
    }
    // The heap gives the tokens in their order, as many as are wanted.
    auto later = [this](int32_t a, int32_t b) {
      float x = logits[size_t(a)], y = logits[size_t(b)];
      return x != y ? x < y : a > b;
    };
    std::vector<int32_t> heap(logits.size());
    std::iota(heap.begin(), heap.end(), 0);
    std::make_heap(heap.begin(), heap.end(), later);
    auto end = heap.end();
    size_t most = some ? limits.topK : logits.size();
    if (some) {
      for (size_t i = 0; i < most; ++i) {
        std::pop_heap(heap.begin(), end--, later);
      }
    }
    uint64_t total = 0;
    for (auto it = some ? end : heap.begin(); it != heap.end(); ++it) {
      total += weights[size_t(*it)];
    }
    uint64_t wanted = limits.share ? std::max<uint64_t>(mulHigh(limits.share, total), 1) : total, mass = 0;
    std::vector<uint64_t> kept(weights.size());
    for (size_t i = 0; i < most && mass < wanted; ++i) {
      int32_t token = 0;
      if (some) {
        token = heap[heap.size() - 1 - i]; // popped: from the end backwards
      } else {
        std::pop_heap(heap.begin(), end--, later);
        token = *end;
      }
      mass += kept[size_t(token)] = weights[size_t(token)];
    }
    weights.swap(kept);
  }

  std::span<const float> logits;
  const DrawLimits &limits;
  std::vector<uint64_t> weights;
};

} // namespace

Result<int32_t> sample(std::span<const float> logits, const smelt_sampling &sampling, uint64_t stream,
                       uint64_t step) {
  if (Status status = checkSampling(sampling); !status.ok()) {
    return status;
  }
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      return badLogit(i);
    }
    if (logits[i] > logits[best]) {
      best = i;
    }
  }
  if (sampling.temperature == 0) {
    return int32_t(best);
  }
  DrawLimits limits = drawLimits(sampling);
  return Draw(logits, best, limits).run(randomBits(sampling.seed, stream, step));
}

} // namespace smelt::runtime
