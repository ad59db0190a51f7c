#include "compiler/Law/ScalingLaw.h"
#include "compiler/Law/PublishedLaws.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace smelt;
using law::ScalingLaw;

namespace {

struct PublishedGain {
  double training_flops;
  double sparsity;
  double percent;
};

constexpr PublishedGain published_gains[] = {
    {1e20, 0.85, 10.0}, {1e20, 0.95, 7.8},  {1e20, 0.97, 6.8},  {1e21, 0.85, 18.0}, {1e21, 0.95, 15.8},
    {1e21, 0.97, 14.7}, {1e22, 0.85, 23.5}, {1e22, 0.95, 20.9}, {1e22, 0.97, 19.6},
};

double tokensPerParameter(const ScalingLaw &law, double sparsity) {
  return law::optimum(law, 1e21, sparsity).tokensPerParameter();
}

} // namespace

TEST_CASE("the gains are the published ones within 0.15 points, and only 1e22 is extrapolated") {
  for (const PublishedGain &published : published_gains) {
    CAPTURE(published.training_flops, published.sparsity);
    const law::Gain gain =
        law::computeGain(law::loopedLaw(), law::baselineLaw(), published.training_flops, published.sparsity);
    CHECK(100 * gain.gain() == Approx(published.percent).margin(0.15));
    CHECK(gain.extrapolated == (published.training_flops > 2.22e21));
    // Equal loss is what the gain is about.
    REQUIRE(gain.reference_training_flops);
    CHECK(law::optimum(law::baselineLaw(), *gain.reference_training_flops, published.sparsity).loss ==
          Approx(gain.loss).epsilon(1e-12));
  }
}

TEST_CASE("tokens per parameter at 1e21 are the published integers") {
  const double sparsities[] = {0.85, 0.95, 0.97};
  const int baseline[] = {56, 78, 91};
  const int looped[] = {56, 75, 86};
  for (int i = 0; i < 3; ++i) {
    CHECK(std::lround(tokensPerParameter(law::baselineLaw(), sparsities[i])) == baseline[i]);
    CHECK(std::lround(tokensPerParameter(law::loopedLaw(), sparsities[i])) == looped[i]);
  }
}

TEST_CASE("frontier exponents are the published ones") {
  CHECK(law::frontierExponent(law::baselineLaw().coefficients) == Approx(0.237).margin(5e-4));
  CHECK(law::frontierExponent(law::loopedLaw().coefficients) == Approx(0.250).margin(5e-4));
}

TEST_CASE("the Chinchilla laws and their refit allocate compute as published") {
  struct Expected {
    const char *law;
    double training_flops;
    double params;
    double tokens;
    double loss;
  };
  const Expected expected[] = {
      {"hoffmann", 1e21, 2.217e9, 7.518e10, 2.2955},
      {"hoffmann", 5.76e23, 4.036e10, 2.379e12, 0},
      {"epoch", 1e21, 2.782e9, 5.991e10, 2.3048},
      {"epoch", 5.76e23, 7.236e10, 1.327e12, 0},
  };
  for (const Expected &line : expected) {
    CAPTURE(line.law, line.training_flops);
    const law::Optimum best = law::optimum(*law::findPublishedLaw(line.law), line.training_flops, 0);
    CHECK(best.run.training_flops_per_token / 6 == Approx(line.params).epsilon(5e-4));
    CHECK(best.run.tokens == Approx(line.tokens).epsilon(5e-4));
    CHECK(best.extrapolated == (line.training_flops > 3e21));
    if (line.loss > 0) {
      CHECK(best.loss == Approx(line.loss).margin(1e-4));
    }
  }
  CHECK(law::optimum(*law::findPublishedLaw("hoffmann"), 5.76e23, 0).tokensPerParameter() ==
        Approx(58.9).margin(0.06));
  CHECK(law::optimum(*law::findPublishedLaw("epoch"), 5.76e23, 0).tokensPerParameter() ==
        Approx(18.3).margin(0.06));
}

TEST_CASE("the optimum is the lowest loss at its compute") {
  for (const ScalingLaw &law : law::publishedLaws()) {
    CAPTURE(law.name);
    const double sparsity = law.coefficients.sparsity_exponent > 0 ? 0.9 : 0;
    const law::Optimum best = law::optimum(law, 3e20, sparsity);
    CHECK(best.run.trainingFlops() == Approx(3e20));
    for (double factor : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) {
      law::TrainingRun other = best.run;
      other.training_flops_per_token *= factor;
      other.tokens /= factor;
      CHECK(law::loss(law, other) > best.loss);
    }
  }
}

TEST_CASE("computeForLoss inverts the frontier, and a loss at or below the floor is out of reach") {
  const ScalingLaw &law = law::loopedLaw();
  for (double compute : {1e18, 1e20, 1e24}) {
    CHECK(*law::computeForLoss(law, law::optimum(law, compute, 0.9).loss, 0.9) ==
          Approx(compute).epsilon(1e-8));
  }
  CHECK_FALSE(law::computeForLoss(law, law.coefficients.floor, 0.9));
  ScalingLaw better = law;
  better.coefficients.floor = 0.5;
  const law::Gain gain = law::computeGain(better, law, 1e30, 0.9);
  CHECK_FALSE(gain.reference_training_flops);
  CHECK(gain.gain() == 1);
  CHECK(gain.extrapolated);
}

TEST_CASE("a law saves nothing against itself") {
  for (const ScalingLaw &law : law::publishedLaws()) {
    CHECK(law::computeGain(law, law, 1e20, 0).gain() == Approx(0).margin(1e-9));
  }
}

TEST_CASE("loss is the sum of its three terms") {
  const ScalingLaw law{.name = "by hand",
                       .description = "",
                       .source = "",
                       .data = "",
                       .coefficients = {.floor = 1,
                                        .model_scale = 8,
                                        .data_scale = 9,
                                        .model_exponent = 1,
                                        .sparsity_exponent = 0.5,
                                        .data_exponent = 2}};
  CHECK(law::loss(law, {2, 0.75, 3}) == Approx(1 + 8 * 0.5 / 2 + 9.0 / 9));
  ScalingLaw in_params = law;
  in_params.flops_per_size = 6;
  CHECK(law::loss(in_params, {12, 0.75, 3}) == Approx(1 + 8 * 0.5 / 2 + 9.0 / 9));
}

TEST_CASE("what is outside is said with the end it is beyond") {
  using Words = std::vector<std::string>;
  const ScalingLaw &law = law::baselineLaw();
  CHECK(law::outside(law, {1.3e9, 0.95, 1e11}).empty());
  CHECK(law::outside(law, {1e11, 0.5, 1e12}) ==
        Words{"1e+23 training FLOPs, above 2.22e+21", "50 % sparsity, below 84 %",
              "1e+11 training FLOPs per token, above 1.04e+10", "1e+12 tokens, above 2.2e+11"});
  CHECK(law::outsideFrontier(law, 1.30e19, 0.85).empty());
  CHECK(law::outsideFrontier(law, 2.22e21, 0.97).empty());
  CHECK(law::outsideFrontier(law, 1.29e19, 0.85) == Words{"1.29e+19 training FLOPs, below 1.3e+19"});
  CHECK(law::outside(ScalingLaw(), {1, 0, 1}).empty());
}

TEST_CASE("published laws have distinct names, sources and ranges") {
  CHECK(law::publishedLaws().size() == 4);
  for (const ScalingLaw &law : law::publishedLaws()) {
    CHECK(law::findPublishedLaw(law.name) == &law);
    CHECK_FALSE(law.source.empty());
    CHECK(law.validity.training_flops);
  }
  CHECK(law::findPublishedLaw("kaplan") == nullptr);
}
