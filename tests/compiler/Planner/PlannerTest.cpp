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
  CHECK(error(cell("tests/tiny-dense")).find("the baseline has no layers with experts") == 0);
  CHECK(error(cell("tests/tiny-mixed-dense-moe")).find("segment 3 overrides the heads") == 0);
  CHECK(error(cell("smelt/smelt-100m-s85")).find("the baseline already loops: segment 2") == 0);
}

TEST_CASE("an infeasible request names the budget, the miss and the nearest point") {
  const PlanResult result = planner::plan(small(), {.tolerance = 0.03, .head_dim = {.multiple_of = 16}});
  CHECK_FALSE(result);
  CHECK(result.status == SMELT_infeasible);
  REQUIRE(result.nearest);
  CHECK(result.nearest->spec->attention.head_dim == 32);
  const std::string expected =
      "no point of the lattice is within 3 % of every budget; at the nearest (hidden_size " +
      std::to_string(result.nearest->spec->hidden_size) + ", query_heads " +
      std::to_string(result.nearest->spec->attention.query_heads) +
      ", kv_heads 4, head_dim 32, expert_hidden_size " +
      std::to_string(result.nearest->spec->moe->expert_hidden_size) + ", experts " +
      std::to_string(result.nearest->spec->moe->experts) +
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
  CHECK(result.plan->pick.spec->name == "mine");
  CHECK(result.plan->baseline == *budget::computeBudget(small(), attended).budget);
  for (const planner::Candidate &candidate : result.plan->runners_up) {
    CHECK(candidate.spec->hidden_size % 32 == 0);
    CHECK(candidate.spec->moe->experts % 8 == 0);
    CHECK(candidate.score >= result.plan->pick.score);
    CHECK(candidate.residuals.worst() <= 0.05);
    CHECK(candidate.budget == *budget::computeBudget(*candidate.spec, attended).budget);
  }
  CHECK(planner::plan(small()).plan->pick.spec->name == "baseline-100m-s85-looped");
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
    CHECK(spec::validate(*result.plan->pick.spec).empty());
    CHECK(result.plan->pick.spec->executedLayers() == 10 + 5 * (visits - 1));
    CHECK(result.plan->pick.budget == *budget::computeBudget(*result.plan->pick.spec).budget);
    CHECK(result.plan->pick.residuals.worst() < 0.03);
  }
}

TEST_CASE("a real model keeps its own kind of attention") {
  // Qwen3-30B-A3B.
  spec::ModelSpec qwen;
  qwen.name = "qwen3-30b-a3b";
  qwen.vocab_size = 151936;
  qwen.hidden_size = 2048;
  qwen.attention = {.query_heads = 32,
                    .kv_heads = 4,
                    .head_dim = 128,
                    .rope_theta = 1e6,
                    .qk_norm = spec::QkNorm::per_head};
  qwen.moe = spec::Moe{.experts = 128, .top_k = 8, .expert_hidden_size = 768};
  qwen.segments = {{.layers = 48, .attention = qwen.attention}};
  REQUIRE(spec::validate(qwen).empty());
  for (const planner::Geometry geometry : {planner::Geometry::uniform, planner::Geometry::per_segment}) {
    const PlanResult result = planner::plan(qwen, {.geometry = geometry});
    INFO(result.error);
    REQUIRE(result);
    const spec::ModelSpec &pick = *result.plan->pick.spec;
    CHECK(spec::validate(pick).empty());
    CHECK(pick.executedLayers() == 72);
    CHECK(pick.attention.qk_norm == spec::QkNorm::per_head);
    CHECK(pick.segments[1].attention.rope_theta == 1e6);
    CHECK(result.plan->pick.residuals.worst() < 0.01);
    CHECK(result.plan->pick.budget == *budget::computeBudget(pick).budget);
  }
}

TEST_CASE("layers, spans, visits and top_k can be free") {
  const PlanResult result = planner::plan(
      small(), {.top_k = {6, 8}, .layers = {8, 10, 12}, .spans = {0.25, 0.5}, .visit_counts = {2, 3}});
  INFO(result.error);
  REQUIRE(result);
  const auto check = [](const planner::Candidate &candidate) {
    const int64_t layers = candidate.spec->physicalLayers();
    CHECK(candidate.placement.prelude + candidate.placement.looped + candidate.placement.coda == layers);
    CHECK((layers == 8 || layers == 10 || layers == 12));
    CHECK((candidate.spec->moe->top_k == 6 || candidate.spec->moe->top_k == 8));
    CHECK(candidate.spec->segments[1].visits == candidate.visits);
    CHECK(candidate.residuals.worst() <= 0.05);
  };
  check(result.plan->pick);
  CHECK(result.plan->pick.score <= planner::plan(small()).plan->pick.score);
  for (const planner::Candidate &candidate : result.plan->front) {
    check(candidate);
  }
  spec::ModelSpec mixed = small();
  mixed.mlp = spec::Mlp{.hidden_size = 1792};
  mixed.segments = {{.layers = 1, .ffn = spec::FfnKind::dense, .attention = mixed.attention},
                    {.layers = 9, .attention = mixed.attention}};
  CHECK(planner::plan(mixed, {.layers = {12}}).error ==
        "layers cannot be free: the baseline's layers differ in ffn, and which of them there should be more "
        "of is not known; pin layers to 10");
}

TEST_CASE("budgets have tolerances and weights of their own") {
  const planner::Targets no_cache{{0.001, 1}, {0.001, 1}, {planner::kAnyDifference, 0}};
  const PlanResult result = planner::plan(small(), {.targets = no_cache});
  REQUIRE(result);
  CHECK(std::abs(result.plan->pick.residuals.training_flops) <= 0.001);
  CHECK(std::abs(result.plan->pick.residuals.non_embedding_params) <= 0.001);
  CHECK(planner::plan(small(), {.targets = planner::Targets{{-1}, {}, {}}}).error ==
        "the tolerance of training FLOPs must be at least 0, not -1");
}

TEST_CASE("a device predicts latency and, as a target, takes part in the choice") {
  const planner::LatencyRequest request{.device = *planner::shippedDevice("h200")};
  // A coarse lattice: with the KV cache at any price, many shapes have to be looked at.
  const PlanOptions coarse{.hidden_size = {.multiple_of = 32},
                           .head_dim = {.multiple_of = 8},
                           .expert_hidden_size = {.multiple_of = 32},
                           .query_heads = {.multiple_of = 4},
                           .kv_heads = {2, 4}};
  PlanOptions options = coarse;
  options.tolerance = 0.2;
  const PlanResult plain = planner::plan(small(), options);
  options.latency = request;
  const PlanResult told = planner::plan(small(), options);
  REQUIRE(plain);
  REQUIRE(told);
  const auto predicted = [&](const spec::ModelSpec &spec) {
    return planner::predictedPicoseconds(budget::architectureOf(spec), request);
  };
  CHECK(told.plan->pick.spec == plain.plan->pick.spec);
  CHECK(told.plan->pick.score == plain.plan->pick.score);
  CHECK(told.plan->latency->baseline_picoseconds == predicted(small()));
  for (const planner::Candidate &candidate : told.plan->front) {
    CHECK(candidate.picoseconds == predicted(*candidate.spec));
    CHECK(candidate.residuals.latency ==
          Approx(static_cast<double>(candidate.picoseconds) / static_cast<double>(predicted(small())) - 1));
  }

  planner::Targets targets = planner::Targets::within(0.05);
  targets.kv_cache = {planner::kAnyDifference, 0};
  targets.latency = {told.plan->pick.residuals.latency * 0.99, 1};
  options.targets = targets;
  const PlanResult matched = planner::plan(small(), options);
  INFO(matched.error);
  REQUIRE(matched);
  CHECK(matched.plan->pick.residuals.latency <= targets.latency.tolerance);
  CHECK(matched.plan->pick.picoseconds == predicted(*matched.plan->pick.spec));
  CHECK(matched.plan->pick.residuals.sum(targets) ==
        Approx((matched.plan->pick.score - matched.plan->pick.shape_distance) / planner::kResidualWeight));

  options.targets->latency = {0, 1};
  const PlanResult infeasible = planner::plan(small(), options);
  CHECK(infeasible.status == SMELT_infeasible);
  REQUIRE(infeasible.reach.size() == 4);
  CHECK(infeasible.reach[3].budget == "predicted_latency");
  CHECK(infeasible.error.find("predicted_latency is ") != std::string::npos);
  options.latency.reset();
  CHECK(planner::plan(small(), options).error ==
        "a target of the predicted latency needs a device to predict it for");
}

TEST_CASE("the plan is the same for any number of threads") {
  const PlanResult one = planner::plan(small(), {.kv_heads = {3, 4, 5}, .threads = 1});
  const PlanResult four = planner::plan(small(), {.kv_heads = {3, 4, 5}, .threads = 4});
  REQUIRE(one);
  REQUIRE(four);
  CHECK(one.plan->pick.spec == four.plan->pick.spec);
  REQUIRE(one.plan->front.size() == four.plan->front.size());
  for (size_t i = 0; i < one.plan->front.size(); ++i) {
    CHECK(one.plan->front[i].spec == four.plan->front[i].spec);
  }
}
