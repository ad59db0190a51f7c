#include "compiler/Planner/Planner.h"
#include "compiler/Spec/SpecReader.h"
#include "compiler/Spec/SpecValidator.h"

#include <catch2/catch.hpp>

using namespace smelt;
using planner::PlanOptions;
using planner::PlanResult;

namespace {

spec::ModelSpec cell(const std::string &name) {
  const spec::SpecResult result =
      spec::readSpecFile(std::string(SMELT_SOURCE_DIR) + "/specs/" + name + ".toml");
  INFO(result.diagnostics.text());
  REQUIRE(result);
  return *result.spec;
}

spec::ModelSpec small() { return cell("smelt/baseline-100m-s85"); }

} // namespace

TEST_CASE("options out of range are usage errors") {
  const auto error = [](PlanOptions options) {
    const PlanResult result = planner::plan(small(), options);
    CHECK_FALSE(result);
    CHECK(result.status == SMELT_usage);
    return result.error;
  };
  CHECK(error({.visits = 1}) == "visits must be from 2 to 256, not 1");
  CHECK(error({.span = 0}) == "span must be more than 0 and at most 1, not 0");
  CHECK(error({.tolerance = -1}) == "tolerance must be at least 0 and less than 1, not -1");
  CHECK(error({.experts = {.multiple_of = 0}}) == "the step of experts must be from 1 to 16384, not 0");
  CHECK(error({.kv_heads = {0}}) == "a number of KV heads must be from 1 to 16384, not 0");
}

TEST_CASE("baselines the matcher cannot take are refused by name") {
  const auto error = [](const spec::ModelSpec &baseline) {
    const PlanResult result = planner::plan(baseline);
    CHECK_FALSE(result);
    CHECK(result.status == SMELT_unsupported);
    return result.error;
  };
  CHECK(error(cell("tests/tiny-dense")).find("the baseline has no [moe]") == 0);
  CHECK(error(cell("tests/tiny-mixed-dense-moe")).find("segment 3 overrides the heads") == 0);
  CHECK(error(cell("smelt/smelt-100m-s85")).find("the baseline already loops: segment 2") == 0);
}

TEST_CASE("an infeasible request names the budget, the miss and the nearest point") {
  const PlanResult result = planner::plan(small(), {.tolerance = 0.03, .head_dim = {.multiple_of = 16}});
  CHECK_FALSE(result);
  CHECK(result.status == SMELT_infeasible);
  REQUIRE(result.nearest);
  CHECK(result.nearest->spec.attention.head_dim == 32);
  const std::string expected =
      "no point of the lattice is within 3 % of every budget; at the nearest (hidden_size " +
      std::to_string(result.nearest->spec.hidden_size) + ", query_heads " +
      std::to_string(result.nearest->spec.attention.query_heads) +
      ", kv_heads 4, head_dim 32, expert_hidden_size " +
      std::to_string(result.nearest->spec.moe->expert_hidden_size) + ", experts " +
      std::to_string(result.nearest->spec.moe->experts) +
      ") kv_elements_per_token is 3840, -14.29 % from the baseline's 4480\n";
  CHECK(result.error.substr(0, expected.size()) == expected);
}

TEST_CASE("more KV heads to choose from bring the KV cache closer") {
  const PlanResult pinned = planner::plan(small());
  const PlanResult freed = planner::plan(small(), {.kv_heads = {2, 3, 4, 5}});
  REQUIRE(pinned);
  REQUIRE(freed);
  CHECK(std::abs(freed.plan->pick.residuals.kv_cache) < std::abs(pinned.plan->pick.residuals.kv_cache));
  CHECK(freed.plan->pick.score <= pinned.plan->pick.score);
}

TEST_CASE("steps, name and attended positions are honoured") {
  const budget::Attended attended = *budget::Attended::parse("2048.5");
  const PlanResult result = planner::plan(small(), {.attended = attended,
                                                    .name = "mine",
                                                    .hidden_size = {.multiple_of = 32},
                                                    .experts = {.multiple_of = 8}});
  INFO(result.error);
  REQUIRE(result);
  CHECK(result.plan->pick.spec.name == "mine");
  CHECK(result.plan->baseline == *budget::computeBudget(small(), attended).budget);
  for (const planner::Candidate &candidate : result.plan->runners_up) {
    CHECK(candidate.spec.hidden_size % 32 == 0);
    CHECK(candidate.spec.moe->experts % 8 == 0);
    CHECK(candidate.score >= result.plan->pick.score);
    CHECK(candidate.residuals.worst() <= 0.05);
    CHECK(candidate.budget == *budget::computeBudget(candidate.spec, attended).budget);
  }
  CHECK(planner::plan(small()).plan->pick.spec.name == "baseline-100m-s85-looped");
}

TEST_CASE("shared experts and dense layers take part") {
  spec::ModelSpec baseline = small();
  baseline.moe->shared_experts = 1;
  baseline.moe->shared_expert_hidden_size = 544;
  baseline.mlp = spec::Mlp{.hidden_size = 1792};
  baseline.segments = {{.layers = 1, .ffn = spec::FfnKind::dense, .attention = baseline.attention},
                       {.layers = 9, .attention = baseline.attention}};
  REQUIRE(spec::validate(baseline).empty());
  for (int64_t visits = 2; visits <= 4; ++visits) {
    const PlanResult result = planner::plan(baseline, {.visits = visits});
    INFO(result.error);
    REQUIRE(result);
    CHECK(spec::validate(result.plan->pick.spec).empty());
    CHECK(result.plan->pick.spec.executedLayers() == 10 + 5 * (visits - 1));
    CHECK(result.plan->pick.budget == *budget::computeBudget(result.plan->pick.spec).budget);
    CHECK(result.plan->pick.residuals.worst() < 0.03);
  }
}
