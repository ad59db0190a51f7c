// A plan as text, JSON and Markdown: the baseline, the pick, the runners-up and the Pareto front.
#pragma once

#include "compiler/Planner/Planner.h"

#include <optional>
#include <string>

namespace smelt::report {

// With a number of training tokens, all of these tell the loss that the published laws predict.
using Tokens = std::optional<double>;

// Budgets with their differences, then shapes, then how the pick stands on the front.
std::string planTable(const planner::Baseline &baseline, const planner::Plan &plan, Tokens tokens = {});

// Every point of the front, closest first, numbered as --candidate counts them.
std::string frontTable(const planner::Plan &plan);

// Why this pick, and what each knob paid.
std::string planExplanation(const planner::Baseline &baseline, const planner::Plan &plan);

// One object: "placement", "attended", "baseline", "pick", "runners_up", "front" and, with tokens,
// "predicted_loss"; models have "name", "shape", "budget" and, against the baseline, "residuals",
// "shape_distance", "score" and "hardware_misfit". With a device, "latency" says what was predicted, and
// models have "predicted_latency".
std::string planJson(const planner::Baseline &baseline, const planner::Plan &plan, Tokens tokens = {});

// All of the above as one document.
std::string planMarkdown(const planner::Baseline &baseline, const planner::Plan &plan, Tokens tokens = {});

} // namespace smelt::report
