// The exhaustive search for the shape of a looped model: pure integers in, ranked shapes out.
#pragma once

#include "compiler/Budget/Attended.h"
#include "compiler/Budget/Budget.h"
#include "compiler/Spec/ModelSpec.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace smelt::planner {

// What the matcher may choose.
struct Shape {
  int64_t hidden_size = 0;
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t expert_hidden_size = 0;
  int64_t experts = 0;

  auto operator<=>(const Shape &) const = default;
};

// The points the search may visit: multiples of a step within a range.
struct Axis {
  int64_t step = 1;
  int64_t low = 1;
  int64_t high = 1;

  // First and last multiple of step in the range.
  int64_t first() const { return (low + step - 1) / step * step; }
  int64_t last() const { return high / step * step; }
};

struct ShapeLattice {
  Axis hidden_size;
  Axis head_dim;
  Axis expert_hidden_size;
  Axis experts;
  int64_t max_query_heads = 1; // multiples of the KV heads up to here
  std::vector<int64_t> kv_heads;
};

// Signed relative differences from the baseline: 0.01 is one per cent more.
struct Residuals {
  double training_flops = 0;
  double non_embedding_params = 0;
  double kv_cache = 0;

  // Largest and sum of the absolute values.
  double worst() const;
  double sum() const;
};

struct RankedShape {
  Shape shape;
  Residuals residuals = {};
  double shape_distance = 0;
  double score = 0;

  // By score; equal scores by shape, so that the order never depends on the search.
  bool operator<(const RankedShape &other) const;
};

// The score is shape_distance + kResidualWeight x the sum of the residuals: 0.1 % of a budget weighs as much
// as a change of shape by a fifth.
inline constexpr double kResidualWeight = 200.0;

struct SearchRequest {
  const spec::ModelSpec *baseline = nullptr; // with [moe]; gives the reference shape
  const spec::ModelSpec *looped = nullptr;   // same, with its segments looped; gives the layer counts
  budget::Budget target;                     // of the baseline
  budget::Attended attended;
  ShapeLattice lattice;
  double tolerance = 0; // every residual of a match is at most this
  size_t keep = 1;      // matches to return
};

struct SearchResult {
  std::vector<RankedShape> matches;   // best first
  std::optional<RankedShape> nearest; // smallest sum of residuals; only searched for when nothing matches
};

// Visits every point of the lattice that could still belong to the result. For every choice of the other
// variables, the best number of experts follows from the budgets, which are linear in it.
SearchResult searchShapes(const SearchRequest &request);

// The model with another shape. Widths that the search does not choose keep their proportion: a shared expert
// to the routed ones and a dense layer to hidden_size, to the nearest multiple of 8.
spec::ModelSpec applyShape(const spec::ModelSpec &spec, const Shape &shape);

// sqrt of the summed squares of the logarithms of how F/H, Q/H, Q/K and the KV heads changed.
double shapeDistance(const Shape &shape, const Shape &reference);

Shape shapeOf(const spec::ModelSpec &spec);

} // namespace smelt::planner
