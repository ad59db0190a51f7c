#include "runtime/src/Sampler.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <map>

using namespace smelt::runtime;
using Catch::Matchers::Contains;

namespace {

const std::vector<float> logits = {1.0f, 3.0f, -2.0f, 3.0f, 0.5f, 2.0f};

int32_t draw(const smelt_sampling &sampling, uint64_t stream, uint64_t step) {
  Result<int32_t> token = sample(logits, sampling, stream, step);
  REQUIRE(token.ok());
  return *token;
}

} // namespace

TEST_CASE("Philox gives the published values") {
  // Random123's known answers for philox4x32 with 10 rounds.
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("The exponential is accurate") {
  for (double x = 0; x > -700; x -= 0.37) {
    CHECK(expNegative(x) == Approx(std::exp(x)).epsilon(1e-14));
  }
  CHECK(expNegative(0) == 1);
  CHECK(expNegative(-1000) == 0);
  CHECK(expNegative(-INFINITY) == 0);
}

TEST_CASE("Temperature 0 takes the largest logit, ties to the lower index") {
  CHECK(draw({.temperature = 0, .top_p = 1, .seed = 9, .top_k = 0}, 3, 7) == 1);
}

TEST_CASE("Draws are fixed by seed, stream and step") {
  std::vector<int32_t> drawn;
  for (uint64_t step = 0; step < 16; ++step) {
    drawn.push_back(draw({.temperature = 1, .top_p = 1, .seed = 42, .top_k = 0}, 0, step));
  }
  CHECK(drawn == std::vector<int32_t>{3, 5, 3, 3, 1, 1, 1, 1, 3, 1, 3, 1, 1, 1, 1, 3});
  CHECK(randomBits(42, 0, 0) != randomBits(42, 1, 0));
  CHECK(randomBits(42, 0, 0) != randomBits(43, 0, 0));
}

TEST_CASE("Draws follow the probabilities") {
  std::map<int32_t, int> counts;
  constexpr int draws = 20000;
  for (int step = 0; step < draws; ++step) {
    ++counts[draw({.temperature = 2, .top_p = 1, .seed = 1, .top_k = 0}, 5, uint64_t(step))];
  }
  double total = 0;
  for (float logit : logits) {
    total += std::exp(logit / 2);
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    CHECK(counts[int32_t(i)] / double(draws) == Approx(std::exp(logits[i] / 2) / total).margin(0.01));
  }
}

TEST_CASE("top_p keeps the smallest set of most likely tokens") {
  auto support = [](double top_p) {
    std::map<int32_t, int> counts;
    for (uint64_t step = 0; step < 500; ++step) {
      ++counts[draw({.temperature = 1, .top_p = top_p, .seed = 1, .top_k = 0}, 0, step)];
    }
    std::vector<int32_t> tokens;
    for (const auto &[token, count] : counts) {
      tokens.push_back(token);
    }
    return tokens;
  };
  // Probabilities: 0.387 of 1 and of 3, 0.142 of 5, 0.052 of 0, 0.032 of 4, 0.003 of 2.
  CHECK(support(1e-9) == std::vector<int32_t>{1});
  CHECK(support(0.5) == std::vector<int32_t>{1, 3});
  CHECK(support(0.8) == std::vector<int32_t>{1, 3, 5});
}

TEST_CASE("top_k keeps the most likely tokens, of equals the first") {
  auto support = [](uint32_t top_k, double top_p) {
    std::map<int32_t, int> counts;
    for (uint64_t step = 0; step < 500; ++step) {
      ++counts[draw({.temperature = 1, .top_p = top_p, .seed = 2, .top_k = top_k}, 0, step)];
    }
    std::vector<int32_t> tokens;
    for (const auto &[token, count] : counts) {
      tokens.push_back(token);
    }
    return tokens;
  };
  CHECK(support(1, 1) == std::vector<int32_t>{1});
  CHECK(support(2, 1) == std::vector<int32_t>{1, 3});
  CHECK(support(3, 1) == std::vector<int32_t>{1, 3, 5});
  // Of the three that are left, 0.423 of 1 and of 3 and 0.155 of 5.
  CHECK(support(3, 0.84) == std::vector<int32_t>{1, 3});
  CHECK(support(3, 0.85) == std::vector<int32_t>{1, 3, 5});
  CHECK(support(6, 1) == support(0, 1));
}

TEST_CASE("Extreme temperatures are as sharp and as flat as they can be") {
  for (uint64_t step = 0; step < 100; ++step) {
    CHECK(draw({.temperature = 1e-320, .top_p = 1, .seed = 3, .top_k = 0}, 0, step) % 2 == 1); // 1 or 3
  }
  std::map<int32_t, int> counts;
  for (uint64_t step = 0; step < 12000; ++step) {
    ++counts[draw({.temperature = 1e300, .top_p = 1, .seed = 3, .top_k = 0}, 0, step)];
  }
  for (const auto &[token, count] : counts) {
    CHECK(count == Approx(2000).margin(200));
  }
}

TEST_CASE("Bad options and bad logits are refused") {
  auto refusal = [](std::vector<float> values, smelt_sampling sampling) {
    Result<int32_t> token = sample(values, sampling, 0, 0);
    REQUIRE(!token.ok());
    return token.status();
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(refusal({1}, {.temperature = -1, .top_p = 0, .seed = 0, .top_k = 0}).code == SMELT_input);
  CHECK_THAT(refusal({1}, {.temperature = nan, .top_p = nan, .seed = 0, .top_k = 0}).message,
             Contains("temperature is nan") && Contains("top_p is nan, must be in (0, 1]"));
  CHECK(refusal({1, NAN}, {.temperature = 0, .top_p = 1, .seed = 0, .top_k = 0}).code == SMELT_weights);
  CHECK_THAT(refusal({1, INFINITY}, {.temperature = 0, .top_p = 1, .seed = 0, .top_k = 0}).message,
             Contains("the logit of token 1 is not finite"));
}
