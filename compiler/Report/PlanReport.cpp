#include "compiler/Report/PlanReport.h"

#include "compiler/Report/Table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::report {

namespace {

using nlohmann::ordered_json;

struct ShapeField {
  const char *key;
  const char *label;
  int64_t planner::Shape::*member;
};

constexpr ShapeField shape_fields[] = {
    {"hidden_size", "hidden size", &planner::Shape::hidden_size},
    {"query_heads", "query heads", &planner::Shape::query_heads},
    {"kv_heads", "KV heads", &planner::Shape::kv_heads},
    {"head_dim", "head size", &planner::Shape::head_dim},
    {"expert_hidden_size", "expert width", &planner::Shape::expert_hidden_size},
    {"experts", "experts", &planner::Shape::experts},
};

struct MatchedBudget {
  const char *key;
  const char *label;
  int64_t budget::Budget::*value;
  double planner::Residuals::*residual;
};

constexpr MatchedBudget matched_budgets[] = {
    {"training_flops_per_token", "training FLOPs per token", &budget::Budget::training_flops_per_token,
     &planner::Residuals::training_flops},
    {"non_embedding_params", "non-embedding parameters", &budget::Budget::non_embedding_params,
     &planner::Residuals::non_embedding_params},
    {"kv_elements_per_token", "KV elements per token", &budget::Budget::kv_elements_per_token,
     &planner::Residuals::kv_cache},
};

std::string percent(double fraction) {
  // Rounded first, so that a hair's breadth below nothing is not "-0.00 %".
  double hundredths = std::round(fraction * 1e4);
  return hundredths == 0 ? "0.00 %" : fmt::format("{:+.2f} %", hundredths / 100);
}

std::string placementText(const planner::LoopPlacement &placement, const spec::ModelSpec &looped) {
  int64_t visits = 1;
  for (const spec::Segment &segment : looped.segments) {
    visits = std::max(visits, segment.visits);
  }
  return fmt::format("{} layers before the loop, {} visited {} times, {} after it", placement.prelude,
                     placement.looped, visits, placement.coda);
}

ordered_json shapeJson(const spec::ModelSpec &spec) {
  planner::Shape shape = planner::shapeOf(spec);
  ordered_json json;
  for (const ShapeField &field : shape_fields) {
    json[field.key] = shape.*field.member;
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

ordered_json candidateJson(const planner::Candidate &candidate) {
  ordered_json json;
  json["name"] = candidate.spec.name;
  json["shape"] = shapeJson(candidate.spec);
  json["budget"] = budgetObject(candidate.budget);
  for (const MatchedBudget &matched : matched_budgets) {
    json["residuals"][matched.key] = candidate.residuals.*matched.residual;
  }
  json["shape_distance"] = candidate.shape_distance;
  json["score"] = candidate.score;
  return json;
}

} // namespace

std::string planTable(const spec::ModelSpec &baseline, const planner::Plan &plan) {
  Table budgets;
  budgets.addRow({"", "baseline", "plan", "difference"});
  for (const MatchedBudget &matched : matched_budgets) {
    budgets.addRow({matched.label, groupDigits(plan.baseline.*matched.value),
                    groupDigits(plan.pick.budget.*matched.value),
                    percent(plan.pick.residuals.*matched.residual)});
  }
  budgets.addRow({"active parameters", groupDigits(plan.baseline.active_params),
                  groupDigits(plan.pick.budget.active_params)});
  budgets.addRow({"executed layers", groupDigits(plan.baseline.executed_layers),
                  groupDigits(plan.pick.budget.executed_layers)});

  Table shapes;
  std::vector<std::string> header = {"", "baseline", "plan"};
  for (size_t i = 0; i < plan.runners_up.size(); ++i) {
    header.push_back(fmt::format("runner-up {}", i + 1));
  }
  shapes.addRow(std::move(header));
  for (const ShapeField &field : shape_fields) {
    std::vector<std::string> row = {field.label, std::to_string(planner::shapeOf(baseline).*field.member),
                                    std::to_string(planner::shapeOf(plan.pick.spec).*field.member)};
    for (const planner::Candidate &candidate : plan.runners_up) {
      row.push_back(std::to_string(planner::shapeOf(candidate.spec).*field.member));
    }
    shapes.addRow(std::move(row));
  }
  std::vector<std::string> worst = {"worst difference", "", percent(plan.pick.residuals.worst())};
  for (const planner::Candidate &candidate : plan.runners_up) {
    worst.push_back(percent(candidate.residuals.worst()));
  }
  shapes.addRow(std::move(worst));

  return fmt::format("{} from {}: {}\nFLOPs with {} attended positions\n\n{}\n{}", plan.pick.spec.name,
                     baseline.name, placementText(plan.placement, plan.pick.spec), plan.attended.text(),
                     budgets.text(), shapes.text());
}

std::string planJson(const spec::ModelSpec &baseline, const planner::Plan &plan) {
  ordered_json json;
  json["placement"] = {
      {"prelude", plan.placement.prelude}, {"looped", plan.placement.looped}, {"coda", plan.placement.coda}};
  json["attended"] = plan.attended.text();
  json["baseline"] = {
      {"name", baseline.name}, {"shape", shapeJson(baseline)}, {"budget", budgetObject(plan.baseline)}};
  json["pick"] = candidateJson(plan.pick);
  json["runners_up"] = ordered_json::array();
  for (const planner::Candidate &candidate : plan.runners_up) {
    json["runners_up"].push_back(candidateJson(candidate));
  }
  return json.dump(2) + "\n";
}

} // namespace smelt::report
