// What the matcher reaches on the 12 sparse pairs of the published grid, against what was published.
#include "compiler/Planner/Explain.h"
#include "compiler/Planner/Planner.h"
#include "compiler/Spec/SpecReader.h"
#include "compiler/Spec/SpecValidator.h"
#include "compiler/Spec/SpecWriter.h"
#include "tests/support/PublishedGrid.h"

#include <catch2/catch.hpp>
#include <chrono>

using namespace smelt;
using namespace smelt::planner;

namespace {

Residuals residualsOf(const spec::ModelSpec &spec, const spec::ModelSpec &baseline) {
  const budget::Budget budget = *budget::computeBudget(spec).budget;
  const budget::Budget target = *budget::computeBudget(baseline).budget;
  const auto relative = [](int64_t value, int64_t wanted) {
    return static_cast<double>(value - wanted) / static_cast<double>(wanted);
  };
  return {relative(budget.training_flops_per_token, target.training_flops_per_token),
          relative(budget.non_embedding_params, target.non_embedding_params),
          relative(budget.kv_elements_per_token, target.kv_elements_per_token)};
}

// How many pairs have a per-segment match within 0.25 % of all three budgets.
int matchedPerSegment(int64_t hidden_step, int64_t head_dim_step, int64_t width_step) {
  int matched = 0;
  for (const auto &[cell, baseline, published] : tests::publishedPairs()) {
    CAPTURE(cell.name());
    const PlanResult result = plan(baseline, {.tolerance = 0.0025,
                                              .geometry = Geometry::per_segment,
                                              .hidden_size = {.multiple_of = hidden_step},
                                              .head_dim = {.multiple_of = head_dim_step},
                                              .expert_hidden_size = {.multiple_of = width_step}});
    INFO(result.error);
    if (!result) {
      continue;
    }
    ++matched;
    const spec::ModelSpec &pick = *result.plan->pick.spec;
    const Residuals residuals = residualsOf(pick, baseline);
    CHECK(residuals.worst() <= 0.0025);
    CHECK(residuals.kv_cache == 0);
    CHECK(spec::validate(pick).empty());
    CHECK(pick.hidden_size % hidden_step == 0);
    CHECK(pick.attention.head_dim % head_dim_step == 0);
    CHECK(pick.moe->expert_hidden_size % width_step == 0);
    REQUIRE(pick.segments.size() == 3);
    for (const spec::Segment &segment : pick.segments) {
      CHECK(segment.attention.query_heads % segment.attention.kv_heads == 0);
      CHECK(segment.attention.kvWidth() * segment.visits == baseline.attention.kvWidth());
    }
    // The spec survives the text it is written as.
    const spec::SpecResult again = spec::parseSpec(spec::writeSpec(pick), "pick.toml");
    INFO(again.diagnostics.text());
    REQUIRE(again);
    CHECK(*again.spec == pick);
  }
  return matched;
}

} // namespace

TEST_CASE("one geometry with the published alignment betters at least 10 of the 12 published pairs") {
  int better = 0;
  for (const auto &[cell, baseline, published] : tests::publishedPairs()) {
    CAPTURE(cell.name());
    const double worst = residualsOf(published, baseline).worst();
    const double distance = shapeDistance(shapeOf(published), shapeOf(baseline));
    const auto start = std::chrono::steady_clock::now();
    const PlanResult result = plan(baseline, {.hidden_size = {.multiple_of = 8},
                                              .head_dim = {.multiple_of = 2},
                                              .expert_hidden_size = {.multiple_of = 8},
                                              .kv_heads = {1, 2, 3, 4, 5, 6, 7, 8}});
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    REQUIRE(result);
    CHECK(time.count() < 5.0); // a tenth of a second but under sanitizers and on busy machines
    if (const Candidate *closer = closerMatch(*result.plan, worst, distance)) {
      ++better;
      CHECK(residualsOf(*closer->spec, baseline).worst() < worst);
      CHECK(shapeDistance(shapeOf(*closer->spec), shapeOf(baseline)) <= distance);
      CHECK(spec::validate(*closer->spec).empty());
      CHECK(whatBlocks(*result.plan, worst, distance).empty());
    } else {
      // 200M at S = 85 and 95: a KV cache nearer than +3.13 % takes 42 or 34 instead of 44 per head.
      CHECK(published.hidden_size == 1056);
      CHECK(whatBlocks(*result.plan, worst, distance).find("closer than 3.12 %") != std::string::npos);
    }
  }
  CHECK(better >= 10);
}

TEST_CASE("KV heads per segment meet all budgets of the published pairs within 0.25 %") {
  CHECK(matchedPerSegment(16, 8, 8) == 12);
  CHECK(matchedPerSegment(64, 16, 32) >= 10);
}

TEST_CASE("the per-segment point of an independent search is on the lattice and within tolerance") {
  const spec::ModelSpec baseline = tests::publishedSpec("baseline-200m-s97");
  const PlanResult result = plan(baseline, {.tolerance = 0.0025,
                                            .geometry = Geometry::per_segment,
                                            .hidden_size = Lattice::pinned(1024),
                                            .head_dim = Lattice::pinned(64),
                                            .expert_hidden_size = Lattice::pinned(352),
                                            .query_heads = Lattice::pinned(16)});
  INFO(result.error);
  REQUIRE(result);
  CHECK(shapeOf(*result.plan->pick.spec) == Shape{.hidden_size = 1024,
                                                  .query_heads = 16,
                                                  .kv_heads = 4,
                                                  .looped_kv_heads = 2,
                                                  .head_dim = 64,
                                                  .expert_hidden_size = 352,
                                                  .experts = 517,
                                                  .top_k = 8});
}
