// Looped models that no spec can express: written as a config and read again, they are the same.
#include "compiler/Export/Export.h"

#include "compiler/Budget/Accounting.h"
#include "compiler/Import/HuggingFaceBaseline.h"
#include "compiler/Spec/SpecReader.h"
#include "tests/compiler/Import/HuggingFaceFixtures.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace smelt;
using nlohmann::json;
using planner::Geometry;

namespace {

// Coarse, so that the search is quick under sanitizers, too.
planner::PlanOptions coarse(Geometry geometry) {
  return {.tolerance = 0.2,
          .runners_up = 1,
          .name = "looped",
          .geometry = geometry,
          .hidden_size = {.multiple_of = 128},
          .expert_hidden_size = {.multiple_of = 64},
          .front = false,
          .threads = 2};
}

planner::Candidate pickOf(const hf::Model &model, const planner::PlanOptions &options) {
  const planner::PlanResult result = planner::plan(hf::toBaseline(model), options);
  INFO(model.architecture.name << ": " << result.error);
  REQUIRE(result);
  return result.plan->pick;
}

json exportedJson(const hf::Model &model, const planner::Candidate &candidate) {
  const exporting::ExportResult result = exporting::exportLooped(model, candidate);
  INFO(model.architecture.name << ": " << result.error);
  REQUIRE(result);
  return json::parse(*result.text);
}

hf::Model readText(const std::string &text) {
  const hf::ModelResult result = hf::parseConfig(text, "looped.json", "looped");
  INFO(result.diagnostics.text());
  REQUIRE(result);
  return *result.model;
}

void checkSameCounts(const budget::Architecture &a, const budget::Architecture &b) {
  for (const budget::Context &context : {budget::Context(), budget::Context::causal(8192)}) {
    const budget::Account first = *budget::accountFor(a, context).account;
    const budget::Account second = *budget::accountFor(b, context).account;
    CHECK(budget::fields(budget::budgetOf(first)) == budget::fields(budget::budgetOf(second)));
    CHECK(first.stored_params == second.stored_params);
    CHECK(first.active_params_all == second.active_params_all);
    CHECK(first.loop_flops_per_visit == second.loop_flops_per_visit);
    CHECK(first.kv == second.kv);
  }
}

void checkRoundTrip(const hf::Model &model, Geometry geometry) {
  CAPTURE(model.architecture.name, planner::geometryName(geometry));
  const planner::Baseline baseline = hf::toBaseline(model);
  REQUIRE_FALSE(baseline.spec);
  CHECK_FALSE(baseline.beyond_spec.empty());
  const planner::Candidate pick = pickOf(model, coarse(geometry));
  CHECK_FALSE(pick.spec);
  CHECK(pick.budget == *budget::computeBudget(pick.architecture).budget);
  const json config = exportedJson(model, pick);
  CHECK(config["model_type"] == "smelt_looped");
  CHECK(config["base_model_type"] == model.model_type);
  CHECK_FALSE(config.contains("architectures"));
  const json original = json::parse(model.config);
  if (original.contains("rope_scaling")) {
    CHECK(config["rope_scaling"] == original["rope_scaling"]);
  }
  checkSameCounts(readText(config.dump()).architecture, pick.architecture);
}

} // namespace

TEST_CASE("a looped model of each family comes back from its config with the same budgets") {
  for (const char *name : {"deepseek-v2-lite", "deepseek-v3", "kimi-k2", "gpt-oss-20b", "gpt-oss-120b",
                           "granite-3.1-3b-a800m", "glm-4.5-air", "llama-4-scout", "phi-3.5-moe",
                           "qwen1.5-moe-a2.7b", "qwen2-57b-a14b", "qwen3-next-80b-a3b"}) {
    const hf::Model model = tests::readFixture(name);
    checkRoundTrip(model, Geometry::uniform);
    checkRoundTrip(model, Geometry::per_segment);
  }
}

TEST_CASE("scaled RoPE does not keep a model from being planned, and is carried through") {
  json config = json::parse(tests::readFixture("qwen3-30b-a3b").config);
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  const hf::Model model = readText(config.dump());
  checkRoundTrip(model, Geometry::uniform);
  // Its budgets, and so its pick, are those of the model without it.
  const planner::Candidate plain = pickOf(tests::readFixture("qwen3-30b-a3b"), coarse(Geometry::uniform));
  const planner::Candidate scaled = pickOf(model, coarse(Geometry::uniform));
  CHECK(plain.spec);
  CHECK(plain.shape == scaled.shape);
  CHECK(plain.budget == scaled.budget);
}

TEST_CASE("shared experts of a width of their own, windows and other depths come back, too") {
  json granite = json::parse(tests::readFixture("granite-3.1-3b-a800m").config);
  granite["model_type"] = "granitemoeshared";
  granite["shared_intermediate_size"] = 1000;
  checkRoundTrip(readText(granite.dump()), Geometry::uniform);
  json mixtral = json::parse(tests::readFixture("mixtral-8x7b").config);
  mixtral["sliding_window"] = 4096;
  const hf::Model windows = readText(mixtral.dump());
  checkRoundTrip(windows, Geometry::per_segment);
  planner::PlanOptions deeper = coarse(Geometry::uniform);
  deeper.layers = {36};
  const planner::Candidate pick = pickOf(windows, deeper);
  checkSameCounts(readText(exportedJson(windows, pick).dump()).architecture, pick.architecture);
}

TEST_CASE("sizes that a family has no key for are refused") {
  const hf::Model model = tests::readFixture("scaled-moe");
  planner::PlanOptions options = coarse(Geometry::uniform);
  options.query_heads = planner::Lattice::pinned(16);
  checkSameCounts(readText(exportedJson(model, pickOf(model, options)).dump()).architecture,
                  pickOf(model, options).architecture);
  options.query_heads = planner::Lattice::pinned(32);
  const exporting::ExportResult result = exporting::exportLooped(model, pickOf(model, options));
  CHECK_FALSE(result);
  CHECK(result.status == SMELT_unsupported);
  CHECK(result.error.find("a loop-lm config has no keys for all sizes of looped: layers 0 to 3") == 0);
}

TEST_CASE("a looped spec comes back from its config") {
  for (const char *name : {"mixtral-8x7b", "olmoe-1b-7b", "qwen3-30b-a3b"}) {
    CAPTURE(name);
    const planner::Candidate pick = pickOf(tests::readFixture(name), coarse(Geometry::per_segment));
    REQUIRE(pick.spec);
    spec::ModelSpec spec = *pick.spec;
    spec.segments[1].order = spec::VisitOrder::layer;
    const exporting::ExportResult result = exporting::exportSpec(spec, exporting::Format::huggingface);
    REQUIRE(result);
    const hf::SpecConversion again = hf::toSpec(readText(*result.text));
    for (const std::string &reason : again.inexpressible) {
      UNSCOPED_INFO(reason);
    }
    REQUIRE(again.spec);
    CHECK(*again.spec == spec);
  }
}

TEST_CASE("any looped spec comes back from its config, or is refused") {
  int families = 0;
  int own_layers = 0;
  int refused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const spec::ModelSpec spec = tests::generateSpec(seed);
    const exporting::ExportResult result = exporting::exportSpec(spec, exporting::Format::huggingface);
    const std::vector<std::string> beyond = exporting::beyondOneStack(spec);
    if (!result) {
      refused += beyond.empty() ? 0 : 1;
      CHECK(result.status == SMELT_unsupported);
      CHECK(result.error.find(spec.name) != std::string::npos);
      continue;
    }
    const hf::Model model = readText(*result.text);
    checkSameCounts(model.architecture, budget::architectureOf(spec));
    if (!beyond.empty()) {
      ++(json::parse(*result.text)["base_model_type"] == hf::kOwnLayers ? own_layers : families);
    }
  }
  CHECK(families > 5);
  CHECK(own_layers > 20);
  CHECK(refused > 20);
}

TEST_CASE("layers that no family has come back under their own name") {
  const std::string file = std::string(SMELT_SOURCE_DIR) + "/specs/tests/tiny-looped.toml";
  spec::ModelSpec spec = *spec::readSpecFile(file).spec;
  spec.moe->router = spec::RouterKind::sigmoid;
  spec.moe->shared_experts = 2;
  spec.moe->shared_expert_hidden_size = 24;
  const exporting::ExportResult result = exporting::exportSpec(spec, exporting::Format::huggingface);
  REQUIRE(result);
  CHECK(json::parse(*result.text)["base_model_type"] == "smelt_layers");
  const hf::SpecConversion again = hf::toSpec(readText(*result.text));
  REQUIRE(again.spec);
  CHECK(again.spec->moe->router == spec::RouterKind::sigmoid);
  CHECK(again.spec->moe->sharedWidth() == 48);
  CHECK(again.spec->segments == spec.segments);
  // What only such files say is told from a family of its own: nobody else writes it.
  CHECK_FALSE(hf::parseConfig(R"({"model_type": "smelt_layers"})", "c.json", "m"));
}

TEST_CASE("segments that do not fit their model are refused by name") {
  const hf::Model model = tests::readFixture("deepseek-v2-lite");
  const json good = exportedJson(model, pickOf(model, coarse(Geometry::per_segment)));
  const auto problems = [&](auto change) {
    json config = good;
    change(config);
    const hf::ModelResult result = hf::parseConfig(config.dump(), "looped.json", "looped");
    CHECK_FALSE(result);
    return result.diagnostics.text();
  };
  const auto has = [](const std::string &text, const std::string &part) {
    INFO(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(has(problems([](json &c) { c.erase("segments"); }),
            "'segments' must be a list of at least one object"));
  CHECK(has(problems([](json &c) { c["segments"][0]["layers"] = 1; }), "the segments have"));
  CHECK(has(problems([](json &c) { c["segments"][1]["visit"] = 2; }),
            "'visit' = 2 is not understood in a segment"));
  CHECK(has(problems([](json &c) { c["segments"][1]["num_key_value_heads"] = 2; }), "not understood"));
  CHECK(has(problems([](json &c) { c["segments"][1]["order"] = "both"; }), "must be \"block\" or \"layer\""));
  CHECK(has(problems([](json &c) { c["segments"][1]["kv_cache"] = "shared"; }), "'kv_cache' is \"shared\""));
  CHECK(has(problems([](json &c) { c["segments"][1]["ffn"] = "dense"; }),
            "'ffn' is \"dense\" in the segments"));
  CHECK(
      has(problems([](json &c) { c["base_model_type"] = nullptr; }), "'base_model_type' is missing or null"));
  CHECK(has(problems([](json &c) { c["base_model_type"] = "smelt_looped"; }),
            "'base_model_type' = \"smelt_looped\" is not a family; known are 'llama'"));
  CHECK(has(problems([](json &c) { c["base_model_type"] = "deepseek_v4"; }), "did you mean 'deepseek_v2'?"));
  CHECK(has(problems([](json &c) { c["router"] = "hash"; }), "'router' = \"hash\""));
  // A loop is no baseline.
  const planner::PlanResult again = planner::plan(hf::toBaseline(readText(good.dump())));
  CHECK(again.status == SMELT_unsupported);
  CHECK(has(again.error, "already loops"));
}
