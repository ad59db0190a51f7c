// The part of a model that the matcher chooses, and how far it is from another model's.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <compare>
#include <cstdint>

namespace smelt::planner {

// What the matcher may choose.
struct Shape {
  int64_t hidden_size = 0;
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t looped_kv_heads = 0; // of segments with several visits; 0: the same as kv_heads
  int64_t head_dim = 0;
  int64_t expert_hidden_size = 0;
  int64_t experts = 0;
  int64_t top_k = 0;

  auto operator<=>(const Shape &) const = default;
};

// The model with another shape. Widths that the search does not choose keep their proportion: a shared expert
// to the routed ones and a dense layer to hidden_size, to the nearest multiple of 8.
spec::ModelSpec applyShape(const spec::ModelSpec &spec, const Shape &shape);

Shape shapeOf(const spec::ModelSpec &spec);

// The widths that follow in proportion; 0 where the baseline has none.
int64_t sharedWidth(const spec::ModelSpec &baseline, const Shape &shape); // of all shared experts together
int64_t mlpWidth(const spec::ModelSpec &baseline, const Shape &shape);

// The number of KV heads of the same width counts half in the distance: what the width itself does to
// attention is in Q/K already.
inline constexpr double kKvHeadsWeight = 0.5;

// How much larger a value is than a reference, as ln(value / reference) squared.
double squaredLog(double value, double reference);

// The parts of the squared distance between shapes, by what they depend on: heads and top_k; Q/H; F/H. Looped
// layers with KV heads of their own are compared with the reference's divided by the visits.
double headSquares(const Shape &shape, const Shape &reference, int64_t visits);
double queryWidthSquares(const Shape &shape, const Shape &reference);
double expertWidthSquares(const Shape &shape, const Shape &reference);

// sqrt of the summed squares of the logarithms of how F/H, Q/H, Q/K, the KV heads (at half weight), top_k and
// the number of layers (depth_ratio) changed.
double shapeDistance(const Shape &shape, const Shape &reference, int64_t visits = 1, double depth_ratio = 1);

} // namespace smelt::planner
