#include "compiler/Planner/Shape.h"

#include <algorithm>
#include <cmath>

namespace smelt::planner {
namespace {

using spec::ModelSpec;
using spec::Segment;

constexpr int64_t kProportionalStep = 8;

// value x numerator / denominator to the nearest multiple of 8, at least one.
int64_t proportional(int64_t value, int64_t numerator, int64_t denominator) {
  const __int128 divisor = __int128(denominator) * kProportionalStep;
  const __int128 steps = (2 * __int128(value) * numerator + divisor) / (2 * divisor);
  return std::max<int64_t>(1, static_cast<int64_t>(steps)) * kProportionalStep;
}

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

} // namespace

ModelSpec applyShape(const ModelSpec &spec, const Shape &shape) {
  ModelSpec result = spec;
  const auto apply = [&](spec::Attention &attention, int64_t kv_heads) {
    attention.query_heads = shape.query_heads;
    attention.kv_heads = kv_heads;
    attention.head_dim = shape.head_dim;
  };
  result.hidden_size = shape.hidden_size;
  apply(result.attention, shape.kv_heads);
  for (Segment &segment : result.segments) {
    const bool own = segment.visits > 1 && shape.looped_kv_heads > 0;
    apply(segment.attention, own ? shape.looped_kv_heads : shape.kv_heads);
  }
  if (spec.mlp) {
    result.mlp->hidden_size = mlpWidth(spec, shape);
  }
  if (spec.moe) {
    result.moe->experts = shape.experts;
    result.moe->expert_hidden_size = shape.expert_hidden_size;
    result.moe->top_k = shape.top_k > 0 ? shape.top_k : spec.moe->top_k;
    if (spec.moe->shared_experts > 0) {
      result.moe->shared_expert_hidden_size = sharedWidth(spec, shape) / spec.moe->shared_experts;
    }
  }
  return result;
}

Shape shapeOf(const ModelSpec &spec) {
  Shape shape{.hidden_size = spec.hidden_size,
              .query_heads = spec.attention.query_heads,
              .kv_heads = spec.attention.kv_heads,
              .head_dim = spec.attention.head_dim};
  for (const Segment &segment : spec.segments) {
    if (segment.visits > 1 && segment.attention.kv_heads != shape.kv_heads) {
      shape.looped_kv_heads = segment.attention.kv_heads;
    }
  }
  if (spec.moe) {
    shape.expert_hidden_size = spec.moe->expert_hidden_size;
    shape.experts = spec.moe->experts;
    shape.top_k = spec.moe->top_k;
  }
  return shape;
}

int64_t sharedWidth(const ModelSpec &baseline, const Shape &shape) {
  if (!baseline.moe || baseline.moe->shared_experts == 0) {
    return 0;
  }
  const spec::Moe &moe = *baseline.moe;
  return moe.shared_experts *
         proportional(moe.shared_expert_hidden_size, shape.expert_hidden_size, moe.expert_hidden_size);
}

int64_t mlpWidth(const ModelSpec &baseline, const Shape &shape) {
  return baseline.mlp ? proportional(baseline.mlp->hidden_size, shape.hidden_size, baseline.hidden_size) : 0;
}

double squaredLog(double value, double reference) {
  const double logarithm = std::log(value / reference);
  return logarithm * logarithm;
}

double headSquares(const Shape &shape, const Shape &reference, int64_t visits) {
  const auto changed = [](int64_t value, int64_t from) {
    return squaredLog(static_cast<double>(value), static_cast<double>(from));
  };
  constexpr double kKvHeads = kKvHeadsWeight * kKvHeadsWeight;
  double squares = kKvHeads * changed(shape.kv_heads, reference.kv_heads);
  if (shape.looped_kv_heads > 0) {
    squares += kKvHeads * changed(shape.looped_kv_heads * visits, reference.kv_heads);
  }
  if (shape.top_k > 0 && reference.top_k > 0) {
    squares += changed(shape.top_k, reference.top_k);
  }
  return squares + squaredLog(ratio(shape.query_heads, shape.kv_heads),
                              ratio(reference.query_heads, reference.kv_heads));
}

double queryWidthSquares(const Shape &shape, const Shape &reference) {
  return squaredLog(ratio(shape.query_heads * shape.head_dim, shape.hidden_size),
                    ratio(reference.query_heads * reference.head_dim, reference.hidden_size));
}

double expertWidthSquares(const Shape &shape, const Shape &reference) {
  return squaredLog(ratio(shape.expert_hidden_size, shape.hidden_size),
                    ratio(reference.expert_hidden_size, reference.hidden_size));
}

double shapeDistance(const Shape &shape, const Shape &reference, int64_t visits, double depth_ratio) {
  // In the order in which the search learns them, so that its sums are the same to the last bit.
  double squares = headSquares(shape, reference, visits) + squaredLog(depth_ratio, 1.0);
  squares += queryWidthSquares(shape, reference);
  squares += expertWidthSquares(shape, reference);
  return std::sqrt(squares);
}

} // namespace smelt::planner
