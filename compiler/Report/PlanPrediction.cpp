#include "compiler/Report/PlanPrediction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace smelt::report {
namespace {

using nlohmann::ordered_json;

ordered_json modelJson(const law::LossPrediction &prediction) {
  return {{"law", prediction.law->name},
          {"loss", prediction.loss},
          {"sparsity_percent", 100 * prediction.run.sparsity},
          {"training_flops", prediction.run.trainingFlops()},
          {"extrapolated", !prediction.outside.empty()},
          {"outside", prediction.outside}};
}

std::string loopCaveat(const planner::Candidate &candidate) {
  const planner::LoopPlacement &at = candidate.placement;
  return law::loopCaveat(
      {.looped = at.looped, .layers = at.prelude + at.looped + at.coda, .visits = candidate.visits});
}

} // namespace

std::optional<law::PairPrediction> predictPlan(const planner::Baseline &baseline, const planner::Plan &plan,
                                               double tokens) {
  const budget::BudgetResult control =
      budget::computeBudget(law::fullyActiveControl(baseline.architecture), plan.attended);
  return control ? std::optional(law::predictPair(plan.baseline, plan.pick.budget, *control.budget, tokens))
                 : std::nullopt;
}

Table predictionTable(const law::PairPrediction &prediction) {
  Table table;
  table.addRow({"", "baseline", "plan", "difference"});
  const auto add = [&](const char *label, auto text) {
    table.addRow({label, text(prediction.baseline), text(prediction.looped)});
  };
  using law::LossPrediction;
  table.addRow({"predicted loss, nats per token", fmt::format("{:.4f}", prediction.baseline.loss),
                fmt::format("{:.4f}", prediction.looped.loss),
                fmt::format("{:+.4f}", prediction.looped.loss - prediction.baseline.loss)});
  add("tokens", [](const LossPrediction &p) { return fmt::format("{:.3g}", p.run.tokens); });
  add("training FLOPs", [](const LossPrediction &p) { return fmt::format("{:.3g}", p.run.trainingFlops()); });
  add("sparsity S", [](const LossPrediction &p) { return fmt::format("{:.2f} %", 100 * p.run.sparsity); });
  add("law", [](const LossPrediction &p) { return p.law->name; });
  return table;
}

std::vector<std::string> predictionWarnings(const law::PairPrediction &prediction,
                                            const planner::Plan &plan) {
  std::vector<std::string> warnings;
  for (const auto &[name, model] :
       {std::pair("baseline", &prediction.baseline), std::pair("plan", &prediction.looped)}) {
    if (!model->outside.empty()) {
      warnings.push_back(fmt::format("extrapolated: the {} is outside the runs behind the law '{}': {}", name,
                                     model->law->name, fmt::join(model->outside, "; ")));
    }
  }
  if (std::string caveat = loopCaveat(plan.pick); !caveat.empty()) {
    warnings.push_back(std::move(caveat));
  }
  return warnings;
}

ordered_json predictionJson(const law::PairPrediction &prediction, const planner::Plan &plan) {
  return {{"tokens", prediction.baseline.run.tokens},
          {"baseline", modelJson(prediction.baseline)},
          {"pick", modelJson(prediction.looped)},
          {"loss_difference", prediction.looped.loss - prediction.baseline.loss},
          {"warnings", predictionWarnings(prediction, plan)}};
}

} // namespace smelt::report
