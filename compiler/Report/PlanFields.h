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
  int64_t budget::Budget::*value;
  double planner::Residuals::*residual;
};

std::span<const MatchedField> matchedFields();

// Those that say something about a plan: the looped KV heads only where some candidate has its own, top_k
// only where it changed.
std::vector<ShapeField> shapeFields(const spec::ModelSpec &baseline, const planner::Plan &plan);

// "576"; the looped KV heads of a model with one geometry are its KV heads.
std::string shapeValue(const planner::Shape &shape, const ShapeField &field);

// "+1.02 %", never "-0.00 %".
std::string signedPercent(double fraction);

// "3 layers before the loop, 6 visited 2 times, 3 after it"
std::string placementText(const planner::LoopPlacement &placement, int64_t visits);

} // namespace smelt::report
