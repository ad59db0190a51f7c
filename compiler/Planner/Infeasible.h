// Words for requests that cannot be met.
#pragma once

#include "compiler/Planner/Planner.h"

#include <span>
#include <string>
#include <string_view>

namespace smelt::planner {

// One of the budgets that the matcher matches, wherever it is kept.
struct MatchedBudget {
  std::string_view key;           // of Budget, in JSON, or "predicted_latency"
  int64_t budget::Budget::*value; // null for the latency
  double Residuals::*residual;
  Target Targets::*target;
};

// The three of every model, and the latency where a device was named.
std::span<const MatchedBudget> matchedBudgets(bool with_latency);

// "hidden_size 576, query_heads 16, ...": looped_kv_heads and top_k only where they say something.
std::string shapeText(const Shape &shape, bool with_top_k);

// Which budgets the nearest point misses and by how much, then what each budget could reach with the other
// two met, then the next nearest points.
std::string infeasibleText(const PlanResult &result, const budget::Budget &target, const Targets &targets,
                           const std::optional<PlanLatency> &latency = {});

} // namespace smelt::planner
