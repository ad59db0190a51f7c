// The default pick against the published pairs: at least as close in every budget at once, and of a sane
// shape.
#include "compiler/Planner/Planner.h"
#include "compiler/Spec/SpecValidator.h"
#include "tests/support/PublishedGrid.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>

using namespace smelt;
using budget::Budget;

namespace {

double difference(int64_t a, int64_t b) {
  return std::fabs(static_cast<double>(a - b) / static_cast<double>(b));
}

} // namespace

TEST_CASE("the default pick is as close as the published pair in all three budgets") {
  for (const auto &[cell, baseline, published_spec] : tests::publishedPairs()) {
    CAPTURE(cell.name());
    const auto start = std::chrono::steady_clock::now();
    const planner::PlanResult result = planner::plan(baseline);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    INFO(result.error);
    REQUIRE(result);
    const planner::Candidate &pick = result.plan->pick;
    const Budget target = *budget::computeBudget(baseline).budget;
    const Budget published = *budget::computeBudget(published_spec).budget;
    const Budget matched = *budget::computeBudget(*pick.spec).budget;
    CHECK(matched == pick.budget);
    for (int64_t Budget::*field :
         {&Budget::training_flops_per_token, &Budget::non_embedding_params, &Budget::kv_elements_per_token}) {
      CHECK(difference(matched.*field, target.*field) <= difference(published.*field, target.*field));
    }
    CHECK(spec::validate(*pick.spec).empty());
    CHECK(pick.spec->attention.kv_heads == baseline.attention.kv_heads);
    CHECK(pick.shape_distance < 0.3);
    CHECK(pick.spec->hidden_size * 4 > baseline.hidden_size * 3);
    REQUIRE(pick.spec->segments.size() == 3);
    CHECK(pick.spec->segments[0].layers == static_cast<int64_t>(cell.number("prelude_layers")));
    CHECK(pick.spec->segments[1].layers == static_cast<int64_t>(cell.number("looped_layers")));
    CHECK(pick.spec->segments[2].layers == static_cast<int64_t>(cell.number("coda_layers")));
    CHECK(pick.spec->segments[1].visits == 2);
    CHECK(pick.spec->segments[1].residual_scale == 0.5);
    CHECK(result.plan->runners_up.size() == 4);
    CHECK(time.count() < 5.0); // a fraction of a second but under sanitizers and on busy machines
  }
}
