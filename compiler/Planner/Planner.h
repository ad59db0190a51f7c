// The matcher behind `smeltc plan`: a looped model with the budgets of a baseline. docs/budgets.md describes
// the method and its defaults.
#pragma once

#include "compiler/Budget/Attended.h"
#include "compiler/Budget/Budget.h"
#include "compiler/Planner/LoopPlacement.h"
#include "compiler/Planner/ShapeSearch.h"
#include "compiler/Spec/ModelSpec.h"
#include "smelt/status.h"

#include <optional>
#include <string>
#include <vector>

namespace smelt::planner {

struct PlanOptions {
  double span = 0.5;  // part of the layers that loops, more than 0 and at most 1
  int64_t visits = 2; // at least 2
  budget::Attended attended = {};
  double tolerance = 0.05; // largest relative difference of each budget in a match
  size_t runners_up = 4;   // matches to return besides the pick
  std::string name = {};   // of the result; "" for the baseline's name with "-looped" added

  // Lattices: every dimension is a multiple of its step.
  int64_t hidden_size_step = 8;
  int64_t head_dim_step = 2;
  int64_t expert_hidden_size_step = 8;
  int64_t experts_step = 1;
  std::vector<int64_t> kv_heads = {}; // numbers of KV heads to try; empty: the baseline's
};

struct Candidate {
  spec::ModelSpec spec;
  budget::Budget budget = {};
  Residuals residuals = {}; // against the baseline
  double shape_distance = 0;
  double score = 0; // lower is better; see kResidualWeight
};

struct Plan {
  LoopPlacement placement;
  budget::Attended attended = {};
  budget::Budget baseline; // the budgets to match
  Candidate pick;
  std::vector<Candidate> runners_up = {}; // best first
};

// A plan, or why there is none: SMELT_usage for options out of range, SMELT_unsupported for baselines the
// matcher does not handle, SMELT_infeasible when no point of the lattice is within tolerance; then `nearest`
// is the one with the smallest sum of residuals, and the error says which budgets it misses and by how much.
struct PlanResult {
  std::optional<Plan> plan;
  smelt_status status = SMELT_ok;
  std::string error;
  std::optional<Candidate> nearest;

  explicit operator bool() const { return plan.has_value(); }
};

// The same result for the same arguments on every machine. The baseline must be valid.
PlanResult plan(const spec::ModelSpec &baseline, const PlanOptions &options = {});

// The lattice that the options give for a baseline: from a quarter to twice the baseline's hidden_size, from
// an eighth to twice its expert width, head_dim up to twice its own times its KV heads over the fewest tried,
// up to four times its query heads, and from top_k to sixteen times its experts.
ShapeLattice latticeFor(const spec::ModelSpec &baseline, const PlanOptions &options);

} // namespace smelt::planner
