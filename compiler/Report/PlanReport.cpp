#include "compiler/Report/PlanReport.h"

#include "compiler/Planner/Explain.h"
#include "compiler/Report/LatencyReport.h"
#include "compiler/Report/PlanFields.h"
#include "compiler/Report/PlanPrediction.h"
#include "compiler/Report/PlanTables.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::report {

namespace {

using nlohmann::ordered_json;

ordered_json shapeJson(const planner::Shape &shape, const std::vector<ShapeField> &fields) {
  ordered_json json;
  for (const ShapeField &field : fields) {
    json[field.key] = shapeNumber(shape, field);
  }
  return json;
}

ordered_json budgetObject(const budget::Budget &budget) {
  ordered_json json;
  for (const auto &[key, value] : budget::fields(budget)) {
    json[std::string(key)] = value;
  }
  return json;
}

ordered_json placementJson(const planner::LoopPlacement &placement) {
  return {{"prelude", placement.prelude}, {"looped", placement.looped}, {"coda", placement.coda}};
}

ordered_json latencyJson(const planner::PlanLatency &latency, int64_t picoseconds) {
  return {{"seconds", 1e-12 * static_cast<double>(picoseconds)},
          {"tokens_per_second", tokensPerSecond(latency, picoseconds)}};
}

// "predicted latency: decode of ... on ..., weights in bf16, KV cache in bf16", or "".
std::string latencyLine(const planner::Plan &plan, std::string_view before, std::string_view after) {
  return plan.latency
             ? fmt::format("{}predicted latency: {} on {}; a roofline, not a measurement{}", before,
                           plan.latency->request.step.words(), requestText(plan.latency->request), after)
             : "";
}

ordered_json candidateJson(const planner::Plan &plan, const planner::Candidate &candidate,
                           const std::vector<ShapeField> &fields) {
  ordered_json json;
  json["name"] = candidate.architecture.name;
  json["shape"] = shapeJson(candidate.shape, fields);
  json["placement"] = placementJson(candidate.placement);
  json["visits"] = candidate.visits;
  json["budget"] = budgetObject(candidate.budget);
  if (plan.latency) {
    json["predicted_latency"] = latencyJson(*plan.latency, candidate.picoseconds);
  }
  for (const MatchedField &field : matchedFields(plan)) {
    json["residuals"][field.key] = candidate.residuals.*field.residual;
  }
  json["shape_distance"] = candidate.shape_distance;
  json["hardware_misfit"] = candidate.fit.misfit();
  json["score"] = candidate.score;
  return json;
}

ordered_json candidatesJson(const planner::Plan &plan, const std::vector<planner::Candidate> &candidates,
                            const std::vector<ShapeField> &fields) {
  ordered_json json = ordered_json::array();
  for (const planner::Candidate &candidate : candidates) {
    json.push_back(candidateJson(plan, candidate, fields));
  }
  return json;
}

std::string heading(const planner::Baseline &baseline, const planner::Plan &plan) {
  return fmt::format("{} from {}: {}", plan.pick.architecture.name, baseline.name(),
                     placementText(plan.placement, plan.pick.visits));
}

std::string reasonLines(const planner::Plan &plan, const char *bullet) {
  std::string text;
  for (const std::string &reason : planner::pickReasons(plan)) {
    text += bullet + reason + "\n";
  }
  return text;
}

// The table and its warnings, or "" without tokens.
std::string predictionText(const planner::Baseline &baseline, const planner::Plan &plan, Tokens tokens,
                           std::string (Table::*write)() const, const char *bullet) {
  const std::optional<law::PairPrediction> prediction =
      tokens ? predictPlan(baseline, plan, *tokens) : std::nullopt;
  if (!prediction) {
    return "";
  }
  std::string text = (predictionTable(*prediction).*write)();
  for (const std::string &warning : predictionWarnings(*prediction, plan)) {
    text += bullet + warning + "\n";
  }
  return text;
}

} // namespace

std::string planTable(const planner::Baseline &baseline, const planner::Plan &plan, Tokens tokens) {
  std::string text = fmt::format("{}\nFLOPs with {} attended positions\n{}\n{}\n{}", heading(baseline, plan),
                                 plan.attended.text(), latencyLine(plan, "", "\n"), budgetsTable(plan).text(),
                                 shapesTable(baseline, plan).text());
  if (tokens) {
    text += "\n" + predictionText(baseline, plan, tokens, &Table::text, "* ");
  }
  if (!plan.front.empty()) {
    text +=
        fmt::format("\n{} matches are on the Pareto front; --front lists them, --explain tells why this is "
                    "the pick\n",
                    plan.front.size());
  }
  return text;
}

std::string frontTable(const planner::Plan &plan) {
  return "Pareto front: worst difference, shape distance, hardware misfit\n" + frontPoints(plan).text();
}

std::string planExplanation(const planner::Baseline &baseline, const planner::Plan &plan) {
  return fmt::format("Why this pick\n{}\nWhat each knob paid, in % of the baseline's budgets\n{}",
                     reasonLines(plan, "- "), knobsTable(baseline, plan).text());
}

std::string planJson(const planner::Baseline &baseline, const planner::Plan &plan, Tokens tokens) {
  const planner::Shape reference = planner::shapeOf(baseline.architecture);
  const std::vector<ShapeField> fields = shapeFields(reference, plan);
  ordered_json json;
  json["placement"] = placementJson(plan.placement);
  json["attended"] = plan.attended.text();
  json["baseline"] = {{"name", baseline.name()},
                      {"shape", shapeJson(reference, fields)},
                      {"budget", budgetObject(plan.baseline)}};
  if (plan.latency) {
    json["latency"] = requestJson(plan.latency->request);
    json["latency"].update(stepJson(plan.latency->request.step));
    json["baseline"]["predicted_latency"] = latencyJson(*plan.latency, plan.latency->baseline_picoseconds);
  }
  json["pick"] = candidateJson(plan, plan.pick, fields);
  json["runners_up"] = candidatesJson(plan, plan.runners_up, fields);
  json["front"] = candidatesJson(plan, plan.front, fields);
  if (tokens) {
    if (const std::optional<law::PairPrediction> prediction = predictPlan(baseline, plan, *tokens)) {
      json["predicted_loss"] = predictionJson(*prediction, plan);
    }
  }
  return json.dump(2) + "\n";
}

std::string planMarkdown(const planner::Baseline &baseline, const planner::Plan &plan, Tokens tokens) {
  std::string text = fmt::format(
      "# {}\n\n{}. FLOPs with {} attended positions.{}\n\n## Budgets\n\n{}\n## Shape\n\n{}\n## Why this "
      "pick\n\n{}\n## What each knob paid\n\nIn % of the baseline's budgets.\n\n{}",
      plan.pick.architecture.name, heading(baseline, plan), plan.attended.text(),
      latencyLine(plan, "\n\n", "."), budgetsTable(plan).markdown(), shapesTable(baseline, plan).markdown(),
      reasonLines(plan, "- "), knobsTable(baseline, plan).markdown());
  if (tokens) {
    text += "\n## Predicted loss\n\n" + predictionText(baseline, plan, tokens, &Table::markdown, "\n- ");
  }
  if (!plan.front.empty()) {
    text += "\n## Pareto front\n\n" + frontPoints(plan).markdown();
  }
  return text;
}

} // namespace smelt::report
