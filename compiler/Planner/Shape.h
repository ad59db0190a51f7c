// The part of a model that the matcher chooses, and how far it is from another model's.
#pragma once

#include "compiler/Planner/Baseline.h"

#include <compare>
#include <cstdint>

namespace smelt::planner {

// What the matcher may choose. Grouped attention has KV heads, latent attention KV ranks; what a model does
// not have is 0.
struct Shape {
  int64_t hidden_size = 0;
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t looped_kv_heads = 0; // of segments with several visits; 0: the same as kv_heads
  int64_t head_dim = 0;        // of a query head; latent attention keeps its own
  int64_t expert_hidden_size = 0;
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t kv_rank = 0;
  int64_t looped_kv_rank = 0; // as looped_kv_heads

  auto operator<=>(const Shape &) const = default;
};

// A looped model of the baseline with another shape. Widths that the search does not choose keep their
// proportion: a shared expert to the routed ones and a dense layer to hidden_size, to the nearest multiple
// of 8. Linear attention keeps its heads, latent attention their sizes and the query rank.
budget::Architecture applyShape(const Baseline &baseline, const budget::Architecture &looped,
                                const Shape &shape);
// The same for a spec.
spec::ModelSpec applyShape(const spec::ModelSpec &spec, const Shape &shape);
// Sets the heads alone, of a layer that loops or of another.
void applyHeads(budget::Attention &attention, const Shape &shape, bool looped);

Shape shapeOf(const budget::Architecture &architecture);
Shape shapeOf(const spec::ModelSpec &spec);

// The widths that follow in proportion; 0 where the baseline has none.
int64_t sharedWidth(const Baseline &baseline, int64_t expert_hidden_size); // of all shared experts together
int64_t mlpWidth(const Baseline &baseline, int64_t hidden_size);

// The number of KV heads of the same width counts half in the distance: what the width itself does to
// attention is in Q/K already.
inline constexpr double kKvHeadsWeight = 0.5;

// How much larger a value is than a reference, as ln(value / reference) squared.
double squaredLog(double value, double reference);

// The parts of the squared distance between shapes, by what they depend on: heads and top_k; Q/H; F/H. Looped
// layers with KV heads or ranks of their own are compared with the reference's divided by the visits.
double headSquares(const Shape &shape, const Shape &reference, int64_t visits);
double queryWidthSquares(const Shape &shape, const Shape &reference);
double expertWidthSquares(const Shape &shape, const Shape &reference);

// sqrt of the summed squares of the logarithms of how F/H, Q/H, Q/K (the KV rank in place of the KV width),
// the KV heads (at half weight), top_k and the number of layers (depth_ratio) changed.
double shapeDistance(const Shape &shape, const Shape &reference, int64_t visits = 1, double depth_ratio = 1);

} // namespace smelt::planner
