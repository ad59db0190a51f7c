// The loss that the published laws predict for a baseline and its plan.
#pragma once

#include "compiler/Law/LossPrediction.h"
#include "compiler/Planner/Planner.h"
#include "compiler/Report/Table.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace smelt::report {

// Both trained on the same number of tokens. Nothing when the control's budget does not fit in 64 bits.
std::optional<law::PairPrediction> predictPlan(const planner::Baseline &baseline, const planner::Plan &plan,
                                               double tokens);

// Loss, sparsity and compute of both.
Table predictionTable(const law::PairPrediction &prediction);

// Why the prediction is an extrapolation, one line for each model, and whether the loop is another than the
// law's; empty when the laws describe both models.
std::vector<std::string> predictionWarnings(const law::PairPrediction &prediction, const planner::Plan &plan);

// {"tokens", "baseline", "pick", "loss_difference", "warnings"}; models have "law", "loss",
// "sparsity_percent", "training_flops", "extrapolated" and, of the law's ranges, "outside".
nlohmann::ordered_json predictionJson(const law::PairPrediction &prediction, const planner::Plan &plan);

} // namespace smelt::report
