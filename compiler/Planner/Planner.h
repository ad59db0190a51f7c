// The matcher behind `smeltc plan`: a looped model with the budgets of a baseline. docs/planner.md describes
// the method and its defaults.
#pragma once

#include "compiler/Budget/Attended.h"
#include "compiler/Budget/Budget.h"
#include "compiler/Planner/Baseline.h"
#include "compiler/Planner/LoopPlacement.h"
#include "compiler/Planner/PlanOptions.h"
#include "compiler/Planner/ShapeSearch.h"
#include "compiler/Spec/ModelSpec.h"
#include "smelt/status.h"

#include <optional>
#include <string>
#include <vector>

namespace smelt::planner {

// What was predicted for every model of a plan, and for the baseline.
struct PlanLatency {
  LatencyRequest request;
  int64_t baseline_picoseconds = 0;
};

// Signed and relative to the baseline.
double latencyResidual(int64_t picoseconds, const PlanLatency &latency);

struct Candidate {
  budget::Architecture architecture;
  std::optional<spec::ModelSpec> spec = {}; // the same, where the baseline is a spec
  Shape shape = {};
  budget::Budget budget = {};
  Residuals residuals = {}; // against the baseline
  double shape_distance = 0;
  double score = 0; // lower is better; see kResidualWeight
  HardwareFit fit = {};
  LoopPlacement placement = {};
  int64_t visits = 2;
  int64_t picoseconds = 0; // of the predicted step, where a device was named
};

struct Plan {
  LoopPlacement placement; // of the pick
  budget::Attended attended = {};
  budget::Budget baseline;                // the budgets to match
  Candidate pick;                         // the match with the lowest score
  std::vector<Candidate> runners_up = {}; // best first
  // Matches that none betters in worst difference, shape distance and hardware misfit at once, closest first.
  std::vector<Candidate> front = {};
  Targets targets = {};
  std::optional<PlanLatency> latency = std::nullopt;
};

// How close one budget can come when the others must stay within their tolerances.
struct BudgetReach {
  std::string_view budget;          // the key of a MatchedBudget
  std::optional<Candidate> closest; // nothing: the others cannot all be met
};

// A plan, or why there is none: SMELT_usage for options out of range, SMELT_unsupported for baselines the
// matcher does not handle, SMELT_infeasible when no point of the lattice is within tolerance; then `nearest`
// is the one with the smallest sum of residuals, and the error says which budgets it misses and by how much.
struct PlanResult {
  std::optional<Plan> plan;
  smelt_status status = SMELT_ok;
  std::string error;
  std::optional<Candidate> nearest = std::nullopt;
  std::vector<Candidate> nearest_points = {}; // the nearest and the next ones
  std::vector<BudgetReach> reach = {};        // of each budget, when infeasible

  explicit operator bool() const { return plan.has_value(); }
};

// The same result for the same arguments on every machine. A spec must be valid.
PlanResult plan(const Baseline &baseline, const PlanOptions &options = {});

} // namespace smelt::planner
