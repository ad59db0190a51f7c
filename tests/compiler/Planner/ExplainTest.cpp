#include "compiler/Planner/Explain.h"

#include "compiler/Spec/SpecReader.h"

#include <catch2/catch.hpp>

using namespace smelt;
using namespace smelt::planner;

namespace {

spec::ModelSpec baseline() {
  return *spec::readSpecFile(std::string(SMELT_SOURCE_DIR) + "/specs/smelt/baseline-100m-s85.toml").spec;
}

} // namespace

TEST_CASE("the knobs lead from the baseline to the pick") {
  for (const Geometry geometry : {Geometry::uniform, Geometry::per_segment}) {
    const PlanResult result = plan(baseline(), {.geometry = geometry, .top_k = {6}});
    INFO(result.error);
    REQUIRE(result);
    const Candidate &pick = result.plan->pick;
    const std::vector<KnobStep> steps = knobSteps(baseline(), pick, {});
    REQUIRE(steps.size() > 4);
    CHECK(steps[0].knob == "loop");
    CHECK(steps[0].change == "5 of 10 layers run 2 times");
    CHECK(steps[0].residuals.kv_cache == Approx(0.5));
    CHECK(steps[0].residuals.non_embedding_params == 0);
    CHECK(steps.back().knob == "experts");
    CHECK(steps.back().change == "64 to " + std::to_string(pick.spec->moe->experts));
    Residuals sum;
    for (const KnobStep &step : steps) {
      sum.training_flops += step.paid.training_flops;
      sum.kv_cache += step.paid.kv_cache;
      CHECK(sum.kv_cache == Approx(step.residuals.kv_cache).margin(1e-12));
    }
    CHECK(sum.training_flops == Approx(pick.residuals.training_flops).margin(1e-12));
    CHECK(steps.back().residuals.worst() == Approx(pick.residuals.worst()).margin(1e-12));
    if (geometry == Geometry::per_segment) {
      CHECK(steps[1].knob == "kv_heads");
      CHECK(steps[1].change == "4 to 4/2");
    }
  }
}

TEST_CASE("the reasons for the pick name its score and the alternatives") {
  const PlanResult result = plan(baseline());
  REQUIRE(result);
  const std::vector<std::string> reasons = pickReasons(*result.plan);
  REQUIRE(reasons.size() == 6);
  CHECK(reasons[0].find("lowest score") != std::string::npos);
  CHECK(reasons[1].find("Pick: worst difference") == 0);
  CHECK(reasons[5].find("The match that fits hardware best") == 0);
  CHECK(pickReasons(*plan(baseline(), {.front = false}).plan).size() == 3);
}

TEST_CASE("what blocks a closer match is told") {
  const PlanResult result = plan(baseline());
  REQUIRE(result);
  const Plan &plan = *result.plan;
  CHECK(closerMatch(plan, 1, 10) == &plan.front.front());
  CHECK(whatBlocks(plan, 1, 10).empty());
  const std::string blocked = whatBlocks(plan, 0.018, 0.01);
  CHECK(blocked.find("no match within a shape distance of 0.0100 is closer than 1.80 %") == 0);
  CHECK(blocked.find("takes a distance of") != std::string::npos);
  CHECK(whatBlocks(plan, 1e-9, 10).find("kv_elements_per_token stops at +1.79 %") != std::string::npos);
}

TEST_CASE("a plan is compared with another looped model of its baseline") {
  const auto compare = [](const std::string &cell, std::vector<int64_t> kv_heads) {
    const std::string folder = std::string(SMELT_SOURCE_DIR) + "/specs/smelt/";
    const spec::ModelSpec from = *spec::readSpecFile(folder + "baseline-" + cell + ".toml").spec;
    const spec::ModelSpec published = *spec::readSpecFile(folder + "smelt-" + cell + ".toml").spec;
    return comparedWith(from, *plan(from, {.kv_heads = kv_heads}).plan, published);
  };
  CHECK(compare("100m-s85", {4, 5})
            .find("smelt-100m-s85 has a worst difference of 3.57 % at a shape distance of 0.3030; closer and "
                  "no less "
                  "like the baseline: worst difference 0.45 %") == 0);
  CHECK(compare("200m-s85", {4, 5})
            .find("; no match within a shape distance of 0.1827 is closer than 3.12 %: "
                  "kv_elements_per_token stops at +3.12 % there") != std::string::npos);
}
