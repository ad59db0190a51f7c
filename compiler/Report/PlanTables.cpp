#include "compiler/Report/PlanTables.h"

#include "compiler/Planner/Explain.h"
#include "compiler/Report/PlanFields.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>

namespace smelt::report {
namespace {

using planner::Candidate;

// One row: what a function says of the pick and of each runner-up.
std::vector<std::string> row(const std::string &label, const std::string &baseline, const planner::Plan &plan,
                             const std::function<std::string(const Candidate &)> &value) {
  std::vector<std::string> cells = {label, baseline, value(plan.pick)};
  for (const Candidate &candidate : plan.runners_up) {
    cells.push_back(value(candidate));
  }
  return cells;
}

} // namespace

Table budgetsTable(const planner::Plan &plan) {
  Table table;
  table.addRow({"", "baseline", "plan", "difference"});
  for (const MatchedField &field : matchedFields(plan)) {
    const bool counted = field.value != nullptr;
    table.addRow(
        {field.label,
         counted ? groupDigits(plan.baseline.*field.value)
                 : picosecondsText(plan.latency->baseline_picoseconds),
         counted ? groupDigits(plan.pick.budget.*field.value) : picosecondsText(plan.pick.picoseconds),
         signedPercent(plan.pick.residuals.*field.residual)});
  }
  if (plan.latency) {
    table.addRow({"tokens per second",
                  fmt::format("{:.0f}", tokensPerSecond(*plan.latency, plan.latency->baseline_picoseconds)),
                  fmt::format("{:.0f}", tokensPerSecond(*plan.latency, plan.pick.picoseconds))});
  }
  table.addRow({"active parameters", groupDigits(plan.baseline.active_params),
                groupDigits(plan.pick.budget.active_params)});
  table.addRow({"executed layers", groupDigits(plan.baseline.executed_layers),
                groupDigits(plan.pick.budget.executed_layers)});
  return table;
}

Table shapesTable(const planner::Baseline &baseline, const planner::Plan &plan) {
  Table table;
  std::vector<std::string> header = {"", "baseline", "plan"};
  for (size_t i = 0; i < plan.runners_up.size(); ++i) {
    header.push_back(fmt::format("runner-up {}", i + 1));
  }
  table.addRow(std::move(header));
  const planner::Shape reference = planner::shapeOf(baseline.architecture);
  const auto text = [](const planner::Shape &shape, const ShapeField &field) {
    return std::to_string(shapeNumber(shape, field));
  };
  for (const ShapeField &field : shapeFields(reference, plan)) {
    table.addRow(row(field.label, text(reference, field), plan,
                     [&](const Candidate &candidate) { return text(candidate.shape, field); }));
  }
  table.addRow(row("worst difference", "", plan, [&](const Candidate &candidate) {
    const double latency = plan.targets.askForLatency() ? std::fabs(candidate.residuals.latency) : 0;
    return fmt::format("{:.2f} %", 100 * std::max(latency, candidate.residuals.worst()));
  }));
  if (plan.latency) {
    table.addRow(row("predicted latency", picosecondsText(plan.latency->baseline_picoseconds), plan,
                     [](const Candidate &candidate) { return picosecondsText(candidate.picoseconds); }));
  }
  table.addRow(row("shape distance", "", plan, [](const Candidate &candidate) {
    return fmt::format("{:.3f}", candidate.shape_distance);
  }));
  table.addRow(row("hardware misfit", std::to_string(planner::hardwareFit(reference).misfit()), plan,
                   [](const Candidate &candidate) { return std::to_string(candidate.fit.misfit()); }));
  return table;
}

Table frontPoints(const planner::Plan &plan) {
  Table table;
  std::vector<std::string> header = {"point", "worst", "distance", "misfit"};
  if (plan.latency) {
    header.push_back("latency");
  }
  const std::vector<ShapeField> fields = shapeFields(plan.pick.shape, plan);
  for (const ShapeField &field : fields) {
    header.push_back(field.label);
  }
  table.addRow(std::move(header));
  for (size_t i = 0; i < plan.front.size(); ++i) {
    const Candidate &candidate = plan.front[i];
    std::vector<std::string> cells = {fmt::format("front-{}", i + 1),
                                      fmt::format("{:.2f} %", 100 * candidate.residuals.worst(plan.targets)),
                                      fmt::format("{:.3f}", candidate.shape_distance),
                                      std::to_string(candidate.fit.misfit())};
    if (plan.latency) {
      cells.push_back(picosecondsText(candidate.picoseconds));
    }
    for (const ShapeField &field : fields) {
      cells.push_back(std::to_string(shapeNumber(candidate.shape, field)));
    }
    table.addRow(std::move(cells));
  }
  return table;
}

Table knobsTable(const planner::Baseline &baseline, const planner::Plan &plan) {
  Table table(2);
  table.addRow(plan.latency
                   ? std::vector<std::string>{"knob", "change", "FLOPs", "parameters", "KV cache", "latency",
                                              "FLOPs so far", "parameters so far", "KV cache so far",
                                              "latency so far"}
                   : std::vector<std::string>{"knob", "change", "FLOPs", "parameters", "KV cache",
                                              "FLOPs so far", "parameters so far", "KV cache so far"});
  for (const planner::KnobStep &step : planner::knobSteps(baseline, plan.pick, plan.attended, plan.latency)) {
    std::vector<std::string> cells = {step.knob, step.change};
    for (const planner::Residuals *residuals : {&step.paid, &step.residuals}) {
      for (const MatchedField &field : matchedFields(plan)) {
        cells.push_back(signedPercent(residuals->*field.residual));
      }
    }
    table.addRow(std::move(cells));
  }
  return table;
}

} // namespace smelt::report
