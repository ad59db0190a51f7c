// The pictures of a plan's page.
#pragma once

#include "compiler/Planner/Planner.h"

#include <string>

namespace smelt::law {
struct PairPrediction;
}

namespace smelt::report {

// Baseline and plan as stacks of layers, widths in proportion to hidden_size.
std::string stackFigure(const planner::Baseline &baseline, const planner::Plan &plan);

// The three budgets, and a predicted latency, of the looped baseline before its shape was matched, and of the
// plan, in % of the baseline's.
std::string budgetFigure(const planner::Baseline &baseline, const planner::Plan &plan);

// Worst difference against shape distance, shaded by hardware misfit.
std::string frontFigure(const planner::Plan &plan);

// Loss on the compute-optimal frontier of the published laws; dashed outside their range. "" when the
// baseline is not sparser than its fully active control.
// A prediction, or null, is marked.
std::string lawFigure(const planner::Baseline &baseline, const planner::Plan &plan,
                      const law::PairPrediction *prediction);

} // namespace smelt::report
