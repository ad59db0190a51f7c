// The rows that every form of a plan has: shapes, matched budgets and how they are written.
#pragma once

#include "compiler/Planner/Planner.h"

#include <span>
#include <string>
#include <vector>

namespace smelt::report {

struct ShapeField {
  const char *key; // in JSON
  const char *label;
  int64_t planner::Shape::*member;
};

struct MatchedField {
  const char *key;
  const char *label;
  int64_t budget::Budget::*value; // null for the predicted latency
  double planner::Residuals::*residual;
};

// The three budgets, and the predicted latency of a plan that has one.
std::span<const MatchedField> matchedFields(const planner::Plan &plan);

// "1.16 ms"
std::string picosecondsText(int64_t picoseconds);
// Of the predicted step, which takes so long.
double tokensPerSecond(const planner::PlanLatency &latency, int64_t picoseconds);

// Those that say something about a plan: heads or ranks as the attention has them, the looped KV heads or
// ranks only where some candidate has its own, top_k only where it changed.
std::vector<ShapeField> shapeFields(const planner::Shape &baseline, const planner::Plan &plan);

// The value; the looped KV heads or ranks of a model with one geometry are those of its other layers.
int64_t shapeNumber(const planner::Shape &shape, const ShapeField &field);

// "+1.02 %", never "-0.00 %".
std::string signedPercent(double fraction);

// "3 layers before the loop, 6 visited 2 times, 3 after it"
std::string placementText(const planner::LoopPlacement &placement, int64_t visits);

} // namespace smelt::report
