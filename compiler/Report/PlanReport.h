// A plan as text and JSON: the baseline, the pick and the runners-up side by side.
#pragma once

#include "compiler/Planner/Planner.h"

#include <string>

namespace smelt::report {

// Budgets with their differences, then shapes.
std::string planTable(const spec::ModelSpec &baseline, const planner::Plan &plan);

// One object: "placement", "attended", "baseline", "pick" and "runners_up"; models have "name", "shape",
// "budget" and, against the baseline, "residuals", "shape_distance" and "score".
std::string planJson(const spec::ModelSpec &baseline, const planner::Plan &plan);

} // namespace smelt::report
