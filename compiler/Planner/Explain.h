// Why a plan is what it is, as data that reports turn into tables and words.
#pragma once

#include "compiler/Planner/Planner.h"

#include <string>
#include <vector>

namespace smelt::planner {

// One change on the way from the baseline to a candidate, and where the budgets are after it.
struct KnobStep {
  std::string knob;    // "loop", or a field of the spec
  std::string change;  // "672 to 576"
  Residuals residuals; // against the baseline, with this change and all before it
  Residuals paid;      // what this change alone added
};

// From the baseline to the candidate one knob at a time: first the loop, then the heads, which settle the KV
// cache, then the widths, which settle the FLOPs, then the experts, which settle the parameters. Knobs that
// the candidate leaves alone are left out. Every intermediate model is counted in full, valid or not, and
// its latency predicted where there is something to predict.
std::vector<KnobStep> knobSteps(const Baseline &baseline, const Candidate &candidate,
                                budget::Attended attended, const std::optional<PlanLatency> &latency = {});

// Sentences on why the plan's pick and not another point of the front: how it was chosen, and what the
// closest, the most similar and the best fitting match would gain and cost.
std::vector<std::string> pickReasons(const Plan &plan);

// A match with a smaller worst difference than `worst` at no larger a shape distance than `distance`: the
// closest one on the front, or nothing.
const Candidate *closerMatch(const Plan &plan, double worst, double distance);

// Why there is no closerMatch(): which budget is in the way at that distance, and how far one has to go for a
// smaller difference. "" when there is one, or no front.
std::string whatBlocks(const Plan &plan, double worst, double distance);

// How the plan stands against another looped model of the same baseline: a match that is closer and no less
// like the baseline, or what blocks one.
std::string comparedWith(const Baseline &baseline, const Plan &plan, const Baseline &other);

} // namespace smelt::planner
