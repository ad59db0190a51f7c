#include "compiler/Report/PlanReport.h"
#include "compiler/Report/PlanPage.h"
#include "compiler/Report/Svg.h"
#include "compiler/Report/Table.h"
#include "compiler/Spec/SpecReader.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace smelt;

namespace {

spec::ModelSpec baseline() {
  return *spec::readSpecFile(std::string(SMELT_SOURCE_DIR) + "/specs/smelt/baseline-200m-s97.toml").spec;
}

planner::Plan perSegment() {
  const planner::PlanResult result =
      planner::plan(baseline(), {.name = "a<b>&\"c\"", .geometry = planner::Geometry::per_segment});
  REQUIRE(result);
  return *result.plan;
}

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

} // namespace

TEST_CASE("a plan's JSON has its pick, runners-up and front") {
  const planner::Plan plan = perSegment();
  const nlohmann::json json = nlohmann::json::parse(report::planJson(baseline(), plan));
  CHECK(json["pick"]["shape"]["looped_kv_heads"] == 2);
  CHECK(json["pick"]["residuals"]["kv_elements_per_token"] == 0);
  CHECK(json["pick"]["hardware_misfit"] == plan.pick.fit.misfit());
  CHECK(json["baseline"]["shape"]["looped_kv_heads"] == 4);
  CHECK(json["runners_up"].size() == plan.runners_up.size());
  CHECK(json["front"].size() == plan.front.size());
  CHECK(json["placement"]["looped"] == 6);
}

TEST_CASE("a plan's tables say the same as text and Markdown") {
  const planner::Plan plan = perSegment();
  const std::string text = report::planTable(baseline(), plan);
  CHECK(text.find("looped KV heads") != std::string::npos);
  CHECK(report::frontTable(plan).find("front-" + std::to_string(plan.front.size())) != std::string::npos);
  CHECK(report::planExplanation(baseline(), plan).find("What each knob paid") != std::string::npos);
  const std::string markdown = report::planMarkdown(baseline(), plan);
  CHECK(count(markdown, "\n## ") == 5);
  CHECK(markdown.find("| KV elements per token | 6,144 | 6,144 | 0.00 % |") != std::string::npos);
}

TEST_CASE("a plan's page is whole, and needs neither network nor script") {
  const planner::Plan plan = perSegment();
  const std::string page = report::planPage(baseline(), plan);
  CHECK(page.find("<!DOCTYPE html>") == 0);
  CHECK(page.find("<h1>a&lt;b&gt;&amp;&quot;c&quot;</h1>") != std::string::npos);
  CHECK(page.find("<b>") == std::string::npos);
  for (const char *outside : {"http", "<script", "src=", "@import", "url("}) {
    CAPTURE(outside);
    CHECK(page.find(outside) == std::string::npos);
  }
  CHECK(page.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(count(page, "<svg") == 4); // stack, budgets, front, laws
  CHECK(count(page, "<svg") == count(page, "</svg>"));
  CHECK(count(page, "<section>") == count(page, "</section>"));
  // A rectangle for each layer, a point for each match of the front besides the legend's three.
  CHECK(count(page, "class=\"once\"") == 12 + 6);
  CHECK(count(page, "class=\"loop\"") == 6);
  CHECK(count(page, "class=\"point fit") == plan.front.size() + 3);
  CHECK(page.find("nan") == std::string::npos);
}

TEST_CASE("a table is text, Markdown and HTML") {
  report::Table table;
  table.addRow({"", "a", "b"});
  table.addRow({"x<y", "1"});
  CHECK(table.markdown() == "|  | a | b |\n|---|---:|---:|\n| x<y | 1 |  |\n");
  CHECK(table.html() == "<table>\n<tr><th scope=\"col\" class=\"name\"></th><th scope=\"col\">a</th><th "
                        "scope=\"col\">b</th></tr>\n"
                        "<tr><th scope=\"row\" class=\"name\">x&lt;y</th><td>1</td></tr>\n</table>\n");
}

TEST_CASE("scales place values and mark round ones") {
  const report::Scale linear(0, 10, 100, 200);
  CHECK(linear(5) == 150);
  CHECK(linear.ticks(5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  const report::Scale logarithmic(0.01, 1, 0, 100, true);
  CHECK(logarithmic(0.1) == Approx(50));
  CHECK(logarithmic.ticks(6).size() == 7); // 1, 2, 5 of two decades, and the end
}

TEST_CASE("a plan predicts losses for a number of tokens, and warns of extrapolation") {
  const planner::Plan plan = perSegment();
  const nlohmann::json json =
      nlohmann::json::parse(report::planJson(baseline(), plan, 1e11))["predicted_loss"];
  CHECK(json["tokens"] == 1e11);
  CHECK(json["pick"]["loss"] < json["baseline"]["loss"]);
  CHECK(json["pick"]["extrapolated"] == false);
  CHECK(json["baseline"]["sparsity_percent"] == Approx(96.8).margin(0.1));
  CHECK(json["warnings"].empty());
  CHECK(json["loss_difference"] < 0);
  const nlohmann::json far =
      nlohmann::json::parse(report::planJson(baseline(), plan, 1e14))["predicted_loss"];
  CHECK(far["pick"]["extrapolated"] == true);
  CHECK(report::planTable(baseline(), plan, 1e14).find("extrapolated: the plan is outside") !=
        std::string::npos);
  CHECK(report::planTable(baseline(), plan, 1e11).find("extrapolated") == std::string::npos);
  CHECK(report::planMarkdown(baseline(), plan, 1e11).find("## Predicted loss") != std::string::npos);
  const std::string page = report::planPage(baseline(), plan, 1e11);
  CHECK(page.find("predicted loss, nats per token") != std::string::npos);
  CHECK(count(page, "<circle") == plan.front.size() + 3 + 2);
}

TEST_CASE("a plan of a model that is no spec tells of what its attention has") {
  const budget::LatentAttention attention{
      .heads = 8, .query_rank = 0, .kv_rank = 64, .nope_dim = 32, .rope_dim = 16, .value_dim = 32};
  const budget::ExpertMlp experts{.experts = 64, .top_k = 6, .width = 128, .shared_width = 256};
  budget::Architecture model{.name = "latent", .vocab_size = 1000, .hidden_size = 256};
  model.groups = {{.layer = {.attention = attention, .ffn = budget::DenseMlp{.width = 1024}}, .layers = 1},
                  {.layer = {.attention = attention, .ffn = experts}, .layers = 11}};
  const planner::Baseline latent(model);
  const planner::PlanResult result = planner::plan(latent, {.geometry = planner::Geometry::per_segment});
  INFO(result.error);
  REQUIRE(result);
  const planner::Plan &plan = *result.plan;
  CHECK_FALSE(plan.pick.spec);
  const nlohmann::json json = nlohmann::json::parse(report::planJson(latent, plan, 1e10));
  CHECK(json["baseline"]["shape"]["kv_rank"] == 64);
  CHECK(json["baseline"]["shape"]["looped_kv_rank"] == 64);
  CHECK(json["pick"]["shape"]["looped_kv_rank"] == 24);
  CHECK_FALSE(json["pick"]["shape"].contains("kv_heads"));
  CHECK_FALSE(json["pick"]["shape"].contains("head_dim"));
  CHECK(json["pick"]["residuals"]["kv_elements_per_token"] == 0);
  CHECK(json["predicted_loss"]["pick"]["law"] == "smelt");
  const std::string page = report::planPage(latent, plan);
  CHECK(count(page, "<svg") == count(page, "</svg>"));
  CHECK(count(page, "class=\"once\"") == 12 + 6);
  CHECK(page.find("layers 3-8: ") != std::string::npos);
  CHECK(page.find("a cache of 24 + 16") != std::string::npos);
  CHECK(page.find("nan") == std::string::npos);
}
