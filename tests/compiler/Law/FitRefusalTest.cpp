// Runs that cannot determine the coefficients of a law.
#include "compiler/Law/Fit.h"
#include "compiler/Law/PublishedLaws.h"
#include "tests/compiler/Law/SyntheticRuns.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

using namespace smelt;
using Catch::Contains;
using law::FitOptions;
using law::Run;

namespace {

// The problems of the synthetic study after a change to each run that keeps it on the law.
std::string problemsOf(std::vector<Run> runs, const FitOptions &options = {.bootstrap = 0}) {
  const law::FitResult result = law::fitLaw(runs, options);
  CHECK_FALSE(result);
  std::string text;
  for (const std::string &problem : result.problems) {
    text += problem + "\n";
  }
  return text;
}

std::vector<Run> changed(const std::function<void(Run &)> &change) {
  std::vector<Run> runs = tests::syntheticRuns(law::loopedLaw(), 0, 1);
  for (Run &run : runs) {
    change(run);
    run.loss = law::loss(law::loopedLaw(), run);
  }
  return runs;
}

std::vector<Run> selected(const std::function<bool(const Run &)> &keep) {
  std::vector<Run> runs;
  for (const Run &run : tests::syntheticRuns(law::loopedLaw(), 0, 1)) {
    if (keep(run)) {
      runs.push_back(run);
    }
  }
  return runs;
}

} // namespace

TEST_CASE("too few runs are counted against what is needed") {
  std::vector<Run> runs = tests::syntheticRuns(law::loopedLaw(), 0, 1);
  runs.resize(1);
  CHECK_THAT(problemsOf(runs), Contains("1 run is too few for 6 coefficients: at least 12 are needed"));
  FitOptions fixed{.bootstrap = 0};
  fixed.fixed.sparsity_exponent = 0;
  runs.clear();
  CHECK_THAT(problemsOf(runs, fixed),
             Contains("0 runs are too few for 5 coefficients: at least 10 are needed"));
}

TEST_CASE("one sparsity does not tell b from A") {
  const auto runs = selected([](const Run &run) { return run.sparsity == 0.95; });
  CHECK(problemsOf(runs) == "all runs have about 95 % sparsity, which does not tell b from A: add runs of "
                            "another sparsity or fix b\n");
  FitOptions fixed{.bootstrap = 0};
  fixed.fixed.sparsity_exponent = law::loopedLaw().coefficients.sparsity_exponent;
  const law::FitResult result = law::fitLaw(runs, fixed);
  REQUIRE(result);
  CHECK(result.fit->law.coefficients.model_scale == Approx(1963).epsilon(1e-3));
}

TEST_CASE("two sizes or two lengths do not give an exponent") {
  CHECK(problemsOf(selected([](const Run &run) { return run.training_flops_per_token < 2e9; })) ==
        "training_flops_per_token has 2 values, counting those within 5 % as one; 3 are needed, or 2 with a "
        "fixed\n");
  CHECK(problemsOf(selected([](const Run &run) { return run.tokens < 4e10; })) ==
        "tokens has 2 values, counting those within 5 % as one; 3 are needed, or 2 with c fixed\n");
  FitOptions fixed{.bootstrap = 0};
  fixed.fixed.data_exponent = 0.7;
  CHECK(problemsOf(selected([](const Run &run) { return run.tokens < 2.5e10; }), fixed) ==
        "tokens has 1 value, counting those within 5 % as one; 2 are needed\n");
}

TEST_CASE("all problems are reported at once") {
  const std::string text =
      problemsOf(selected([](const Run &run) { return run.sparsity == 0.85 && run.tokens < 2.5e10; }));
  CHECK_THAT(text, Contains("4 runs are too few"));
  CHECK_THAT(text, Contains("tokens has 1 value"));
  CHECK_THAT(text, Contains("does not tell b from A"));
}

TEST_CASE("tokens in proportion to size leave the two terms mixed") {
  std::vector<Run> runs = changed([](Run &run) {
    run.training_flops_per_token *= run.tokens / 2e10;
    run.tokens = 20 * run.training_flops_per_token / 6;
  });
  CHECK_THAT(problemsOf(runs), Contains("training_flops_per_token and tokens vary together"));
}

TEST_CASE("sparsity that follows size leaves a and b mixed") {
  std::vector<Run> runs =
      changed([](Run &run) { run.sparsity = 1 - std::pow(run.training_flops_per_token / 1e8, -0.5); });
  CHECK_THAT(problemsOf(runs), Contains("training_flops_per_token and 1 - sparsity vary together"));
}

TEST_CASE("equal losses have no law") {
  std::vector<Run> runs = tests::syntheticRuns(law::loopedLaw(), 0, 1);
  for (Run &run : runs) {
    run.loss = 2;
  }
  CHECK(problemsOf(runs) == "all runs have the same loss, 2\n");
}

TEST_CASE("a term that the runs do not show is named") {
  law::ScalingLaw no_data = law::loopedLaw();
  no_data.coefficients.data_scale = 0;
  CHECK_THAT(problemsOf(tests::syntheticRuns(no_data, 0, 1)),
             Contains("the loss does not depend on tokens") || Contains("do not determine"));
}

TEST_CASE("a floor that is fixed above a loss is refused") {
  FitOptions fixed{.bootstrap = 0};
  fixed.fixed.floor = 9;
  CHECK_THAT(problemsOf(tests::syntheticRuns(law::loopedLaw(), 0, 1), fixed),
             Contains("E is fixed at 9, not below the lowest loss"));
}

TEST_CASE("intervals need cells") {
  std::vector<Run> runs = tests::syntheticRuns(law::loopedLaw(), 0, 1);
  for (Run &run : runs) {
    run.cell = run.sparsity == 0.85 ? "one" : "other";
  }
  CHECK(problemsOf(runs, {}) == "2 cells are too few for intervals: at least 4 are needed\n");
  CHECK(law::fitLaw(runs, {.bootstrap = 0}));

  // Enough cells, but each holds one length of training, so only rare resamples could be fitted.
  runs.clear();
  for (Run run : tests::syntheticRuns(law::loopedLaw(), 0, 1)) {
    if (run.tokens < 1e11) {
      run.cell = std::to_string(run.tokens);
      runs.push_back(run);
    }
  }
  runs.front().cell = "alone";
  const law::FitResult result = law::fitLaw(runs, {.bootstrap = 30});
  REQUIRE(result);
  CHECK(result.fit->redrawn > 0);
}
