// A plan as one self-contained HTML page.
#pragma once

#include "compiler/Planner/Planner.h"

#include <optional>
#include <string>

namespace smelt::report {

// Inline SVG and style, no network, no script; light or dark as the reader prefers. Shows the stacks, the
// budgets before and after, the Pareto front, the frontier of the published scaling laws at the models'
// sparsity, and the tables of planMarkdown(). With training tokens, the predicted losses are
// on it, too.
std::string planPage(const planner::Baseline &baseline, const planner::Plan &plan,
                     std::optional<double> tokens = {});

} // namespace smelt::report
