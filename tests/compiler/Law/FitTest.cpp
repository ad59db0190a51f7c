#include "compiler/Law/Fit.h"
#include "compiler/Law/FitObjective.h"
#include "compiler/Law/PublishedLaws.h"
#include "tests/compiler/Law/SyntheticRuns.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

using namespace smelt;
using law::FitOptions;
using law::FitResult;
using law::Run;
using tests::syntheticRuns;

namespace {

FitResult fit(const std::vector<Run> &runs, const FitOptions &options = {.bootstrap = 0}) {
  FitResult result = law::fitLaw(runs, options);
  for (const std::string &problem : result.problems) {
    UNSCOPED_INFO(problem);
  }
  return result;
}

void checkNear(const law::Coefficients &found, const law::Coefficients &expected, double relative) {
  for (const law::CoefficientName &coefficient : law::coefficient_names) {
    CAPTURE(coefficient.letter);
    CHECK(found.*coefficient.member == Approx(expected.*coefficient.member).epsilon(relative).margin(1e-12));
  }
}

} // namespace

TEST_CASE("the gradient of the objective is its slope") {
  const std::vector<Run> runs = syntheticRuns(law::loopedLaw(), 0.003, 7);
  const law::FitObjective objective(runs, 1e-3);
  std::vector<double> weights(runs.size(), 1);
  weights[3] = 0;
  weights[5] = 3;
  const law::Unknowns at = {0.3, -0.7, -1.2, 0.35, 0.2, 0.6};
  law::Unknowns gradient;
  law::Unknowns unused;
  objective.evaluate(at, weights, gradient);
  for (size_t i = 0; i < law::unknown_count; ++i) {
    CAPTURE(i);
    const double step = 1e-6;
    law::Unknowns up = at;
    law::Unknowns down = at;
    up[i] += step;
    down[i] -= step;
    const double slope =
        (objective.evaluate(up, weights, unused) - objective.evaluate(down, weights, unused)) / (2 * step);
    CHECK(gradient[i] == Approx(slope).epsilon(1e-5));
  }
}

TEST_CASE("a residual of delta adds one half, and larger ones count linearly") {
  std::vector<Run> runs = syntheticRuns(law::loopedLaw(), 0, 1);
  runs.resize(1);
  const law::FitObjective objective(runs, 0.5);
  const std::vector<double> weights = {1};
  law::Unknowns gradient;
  // A floor alone, e^0.5 and e^2 times the measured loss.
  const double measured = std::log(runs[0].loss);
  CHECK(objective.evaluate({measured + 0.5, -800, -800, 0, 0, 0}, weights, gradient) == Approx(0.5));
  CHECK(objective.evaluate({measured + 2, -800, -800, 0, 0, 0}, weights, gradient) == Approx(3.5));
}

TEST_CASE("runs on a law give its coefficients back, whichever law it is") {
  for (const law::ScalingLaw *expected : {&law::baselineLaw(), &law::loopedLaw()}) {
    const FitResult result = fit(syntheticRuns(*expected, 0, 1));
    REQUIRE(result);
    checkNear(result.fit->law.coefficients, expected->coefficients, 1e-5);
    CHECK(result.fit->rmse < 1e-8);
    CHECK(result.fit->starts_at_best > result.fit->starts / 2);
    CHECK(result.fit->notes.empty());
  }
}

TEST_CASE("known coefficients lie within the intervals of noisy runs") {
  FitOptions options;
  options.bootstrap = 400;
  const FitResult result = fit(syntheticRuns(law::loopedLaw(), 0.003, 1), options);
  REQUIRE(result);
  CHECK(result.fit->draws.size() == 400);
  CHECK(result.fit->cells == 12);
  for (const law::CoefficientName &coefficient : law::coefficient_names) {
    CAPTURE(coefficient.letter);
    const law::Interval interval = result.fit->interval(coefficient.member);
    const double expected = law::loopedLaw().coefficients.*coefficient.member;
    CHECK(interval.low <= expected);
    CHECK(interval.high >= expected);
    CHECK(interval.low < result.fit->law.coefficients.*coefficient.member);
    CHECK(interval.high > result.fit->law.coefficients.*coefficient.member);
  }
  const law::Interval gamma = result.fit->frontierInterval();
  CHECK(gamma.low < 0.2503);
  CHECK(gamma.high > 0.2502);
  CHECK(result.fit->rmse == Approx(0.0055).margin(0.0015));
}

TEST_CASE("over many studies the intervals cover about as often as they say") {
  int covered = 0;
  int intervals = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    FitOptions options;
    options.bootstrap = 120;
    options.seed = seed;
    const FitResult result = fit(syntheticRuns(law::baselineLaw(), 0.003, 100 + seed), options);
    REQUIRE(result);
    for (const law::CoefficientName &coefficient : law::coefficient_names) {
      const law::Interval interval = result.fit->interval(coefficient.member);
      const double expected = law::baselineLaw().coefficients.*coefficient.member;
      covered += interval.low <= expected && expected <= interval.high ? 1 : 0;
      ++intervals;
    }
  }
  // Twelve cells and few draws: a little below 95 %.
  CHECK(covered >= intervals * 80 / 100);
}

TEST_CASE("outliers hardly move the fit") {
  std::vector<Run> runs = syntheticRuns(law::loopedLaw(), 0, 1);
  runs[10].loss *= 1.2; // diverged runs
  runs[40].loss *= 1.5;
  const FitResult result = fit(runs);
  REQUIRE(result);
  checkNear(result.fit->law.coefficients, law::loopedLaw().coefficients, 0.1);
  CHECK(result.fit->law.coefficients.floor == Approx(law::loopedLaw().coefficients.floor).margin(0.01));
}

TEST_CASE("the fit depends on the seed and not on the threads") {
  const std::vector<Run> runs = syntheticRuns(law::loopedLaw(), 0.003, 2);
  FitOptions options;
  options.bootstrap = 40;
  options.threads = 1;
  const FitResult one = fit(runs, options);
  options.threads = 5;
  const FitResult five = fit(runs, options);
  options.seed = 2;
  const FitResult other_seed = fit(runs, options);
  REQUIRE(one);
  REQUIRE(five);
  REQUIRE(other_seed);
  CHECK(one.fit->law == five.fit->law);
  CHECK(one.fit->draws == five.fit->draws);
  CHECK(one.fit->law == other_seed.fit->law);
  CHECK(one.fit->draws != other_seed.fit->draws);
}

TEST_CASE("coefficients can be fixed, and dense runs then fit") {
  const law::ScalingLaw &epoch = *law::findPublishedLaw("epoch");
  std::vector<Run> runs = syntheticRuns(epoch, 0, 1);
  for (Run &run : runs) {
    run.sparsity = 0;
  }
  FitOptions options;
  options.bootstrap = 0;
  options.fixed.sparsity_exponent = 0;
  const FitResult result = fit(runs, options);
  REQUIRE(result);
  law::Coefficients in_flops = epoch.coefficients;
  in_flops.model_scale *= std::pow(6, in_flops.model_exponent);
  checkNear(result.fit->law.coefficients, in_flops, 1e-4);

  options.fixed.floor = 1.5;
  options.fixed.data_exponent = 0.4;
  const FitResult forced = fit(runs, options);
  REQUIRE(forced);
  CHECK(forced.fit->law.coefficients.floor == Approx(1.5));
  CHECK(forced.fit->law.coefficients.data_exponent == 0.4);
  CHECK(forced.fit->rmse > result.fit->rmse);
}

TEST_CASE("the ranges of a fitted law are those of its runs") {
  const std::vector<Run> runs = syntheticRuns(law::loopedLaw(), 0.003, 1);
  const FitResult result = fit(runs);
  REQUIRE(result);
  CHECK(result.fit->law.validity.sparsity == law::Range{0.85, 0.97});
  CHECK(result.fit->law.validity.tokens == law::Range{2.05e10, 2.15e11});
  CHECK(result.fit->law.validity.training_flops_per_token == law::Range{6.4e8, 1.02e10});
  CHECK(result.fit->law.validity.training_flops->low == Approx(6.4e8 * 2.05e10));
  CHECK(result.fit->law.validity.training_flops->high == Approx(1.02e10 * 2.15e11));
}
