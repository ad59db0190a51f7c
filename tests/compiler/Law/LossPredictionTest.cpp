#include "compiler/Law/LossPrediction.h"
#include "compiler/Law/PublishedLaws.h"
#include "tests/support/PublishedGrid.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace smelt;
using budget::Budget;
using tests::publishedSpec;

namespace {

Budget budgetOf(const spec::ModelSpec &spec) { return *budget::computeBudget(spec).budget; }

} // namespace

TEST_CASE("the sparsity of the published unlooped models is the printed one") {
  int sparse = 0;
  for (const tests::PublishedCell &cell : tests::publishedGrid()) {
    if (cell.columns.at("arch") != "baseline") {
      continue;
    }
    CAPTURE(cell.name());
    const spec::ModelSpec spec = publishedSpec(cell.name());
    const double sparsity = law::sparsity(budgetOf(spec), budgetOf(law::fullyActiveControl(spec)));
    CHECK(std::fabs(100 * sparsity - cell.number("sparsity_percent")) <= 0.05 + 1e-9);
    sparse += sparsity > 0 ? 1 : 0;
  }
  CHECK(sparse == 12);
}

TEST_CASE("against the unlooped control, a looped model is about as sparse as its baseline") {
  const Budget control = budgetOf(law::fullyActiveControl(publishedSpec("baseline-200m-s95")));
  CHECK(100 * law::sparsity(budgetOf(publishedSpec("smelt-200m-s95")), control) == Approx(94.5).margin(0.05));
}

TEST_CASE("a model without experts is its own control") {
  spec::ModelSpec dense = publishedSpec("baseline-100m-s85");
  dense.moe.reset();
  dense.mlp = spec::Mlp{.hidden_size = 1024};
  for (spec::Segment &segment : dense.segments) {
    segment.ffn = spec::FfnKind::dense;
  }
  CHECK(law::fullyActiveControl(dense) == dense);
  CHECK(law::sparsity(budgetOf(dense), budgetOf(dense)) == 0);
}

TEST_CASE("a pair is predicted by the law of each, on the same tokens") {
  const spec::ModelSpec baseline = publishedSpec("baseline-600m-s95");
  const Budget baseline_budget = budgetOf(baseline);
  const Budget looped_budget = budgetOf(publishedSpec("smelt-600m-s95"));
  const Budget control = budgetOf(law::fullyActiveControl(baseline));
  const law::PairPrediction pair = law::predictPair(baseline_budget, looped_budget, control, 1e11);
  CHECK(pair.baseline.law == &law::baselineLaw());
  CHECK(pair.looped.law == &law::loopedLaw());
  CHECK(pair.baseline.outside.empty());
  CHECK(pair.looped.outside.empty());
  CHECK(pair.baseline.run.tokens == 1e11);
  CHECK(pair.looped.run.training_flops_per_token ==
        static_cast<double>(looped_budget.training_flops_per_token));
  CHECK(pair.looped.loss == law::loss(law::loopedLaw(), pair.looped.run));
  CHECK(pair.looped.loss < pair.baseline.loss);

  const law::PairPrediction beyond = law::predictPair(baseline_budget, looped_budget, control, 1e13);
  CHECK(beyond.baseline.outside ==
        std::vector<std::string>{"4.19e+22 training FLOPs, above 2.22e+21", "1e+13 tokens, above 2.2e+11"});
}

TEST_CASE("a loop that the law was not fitted to is said") {
  CHECK(law::loopCaveat(publishedSpec("smelt-100m-s85")) == "");
  CHECK(law::loopCaveat(publishedSpec("smelt-1.6b-s97")) == "");
  CHECK(law::loopCaveat(publishedSpec("baseline-100m-s85")) ==
        "the law 'smelt' describes half of the layers visited twice, not a model without a loop");
  spec::ModelSpec other = publishedSpec("smelt-100m-s85");
  other.segments[1].visits = 3;
  CHECK(law::loopCaveat(other) ==
        "the law 'smelt' describes half of the layers visited twice, not 5 of 10 layers visited 3 times");
  other.segments[1].visits = 2;
  other.segments[1].order = spec::VisitOrder::layer;
  CHECK_THAT(law::loopCaveat(other), Catch::Contains("visited 2 times, each in turn"));
  other.segments[0].visits = 2;
  CHECK_THAT(law::loopCaveat(other), Catch::Contains("2 of 10 layers visited 2 times and 5 of 10"));
}

TEST_CASE("every sparse cell of the study lies inside the laws' ranges") {
  for (const tests::PublishedCell &cell : tests::publishedGrid()) {
    if (cell.number("sparsity_percent") == 0) {
      continue;
    }
    CAPTURE(cell.name());
    const double flops = static_cast<double>(budgetOf(publishedSpec(cell.name())).training_flops_per_token);
    const double sparsity = cell.number("sparsity_percent") / 100;
    // The shortest and the longest schedule, 10 B tokens after 10,000 and 196,075 steps of 2^20.
    for (double tokens : {1e4 * 0x1p20 + 1e10, 196075 * 0x1p20 + 1e10}) {
      const law::Validity &range = law::loopedLaw().validity;
      CHECK(range.training_flops_per_token->contains(flops));
      CHECK(range.tokens->contains(tokens));
      CHECK(range.sparsity->contains(sparsity));
      // Printed to three digits.
      CHECK(flops * tokens > range.training_flops->low * 0.995);
      CHECK(flops * tokens < range.training_flops->high * 1.005);
    }
  }
}
