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

// The heads of the first layers, and of looped ones what differs.
void addHeads(const budget::LayerGroup &group, Shape &shape) {
  const bool first = shape.query_heads == 0;
  if (const auto *grouped = std::get_if<budget::GroupedAttention>(&group.layer.attention)) {
    if (first) {
      shape.query_heads = grouped->query_heads;
      shape.kv_heads = grouped->kv_heads;
      shape.head_dim = grouped->head_dim;
    } else if (group.visits > 1 && grouped->kv_heads != shape.kv_heads) {
      shape.looped_kv_heads = grouped->kv_heads;
    }
  } else if (const auto *latent = std::get_if<budget::LatentAttention>(&group.layer.attention)) {
    if (first) {
      shape.query_heads = latent->heads;
      shape.head_dim = latent->nope_dim + latent->rope_dim;
      shape.kv_rank = latent->kv_rank;
    } else if (group.visits > 1 && latent->kv_rank != shape.kv_rank) {
      shape.looped_kv_rank = latent->kv_rank;
    }
  }
}

} // namespace

budget::Architecture applyShape(const Baseline &baseline, const budget::Architecture &looped,
                                const Shape &shape) {
  budget::Architecture result = looped;
  result.hidden_size = shape.hidden_size;
  const auto apply = [&](budget::Layer &layer, bool loops) {
    applyHeads(layer.attention, shape, loops);
    if (auto *mlp = std::get_if<budget::DenseMlp>(&layer.ffn)) {
      mlp->width = mlpWidth(baseline, shape.hidden_size);
    } else if (auto *experts = std::get_if<budget::ExpertMlp>(&layer.ffn)) {
      experts->experts = shape.experts;
      experts->top_k = shape.top_k > 0 ? shape.top_k : experts->top_k;
      experts->width = shape.expert_hidden_size;
      experts->shared_width = sharedWidth(baseline, shape.expert_hidden_size);
    }
  };
  for (budget::LayerGroup &group : result.groups) {
    apply(group.layer, group.visits > 1);
  }
  if (result.mtp) {
    apply(result.mtp->layer, false);
  }
  return result;
}

ModelSpec applyShape(const ModelSpec &spec, const Shape &shape) {
  const Baseline sizes(spec);
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
    result.mlp->hidden_size = proportional(spec.mlp->hidden_size, shape.hidden_size, spec.hidden_size);
  }
  if (spec.moe) {
    result.moe->experts = shape.experts;
    result.moe->expert_hidden_size = shape.expert_hidden_size;
    result.moe->top_k = shape.top_k > 0 ? shape.top_k : spec.moe->top_k;
    if (spec.moe->shared_experts > 0) {
      result.moe->shared_expert_hidden_size =
          sharedWidth(sizes, shape.expert_hidden_size) / spec.moe->shared_experts;
    }
  }
  return result;
}

void applyHeads(budget::Attention &attention, const Shape &shape, bool looped) {
  if (auto *grouped = std::get_if<budget::GroupedAttention>(&attention)) {
    grouped->query_heads = shape.query_heads;
    grouped->kv_heads = looped && shape.looped_kv_heads > 0 ? shape.looped_kv_heads : shape.kv_heads;
    grouped->head_dim = shape.head_dim;
  } else if (auto *latent = std::get_if<budget::LatentAttention>(&attention)) {
    latent->heads = shape.query_heads;
    latent->kv_rank = looped && shape.looped_kv_rank > 0 ? shape.looped_kv_rank : shape.kv_rank;
  }
}

Shape shapeOf(const budget::Architecture &architecture) {
  Shape shape{.hidden_size = architecture.hidden_size};
  for (const budget::LayerGroup &group : architecture.groups) {
    addHeads(group, shape);
    const auto *experts = std::get_if<budget::ExpertMlp>(&group.layer.ffn);
    if (experts && shape.experts == 0) {
      shape.expert_hidden_size = experts->width;
      shape.experts = experts->experts;
      shape.top_k = experts->top_k;
    }
  }
  return shape;
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

int64_t sharedWidth(const Baseline &baseline, int64_t expert_hidden_size) {
  const budget::ExpertMlp *experts = baseline.experts();
  if (!experts || experts->shared_width == 0) {
    return 0;
  }
  return baseline.shared_experts * (baseline.shared_like_routed
                                        ? expert_hidden_size
                                        : proportional(experts->shared_width / baseline.shared_experts,
                                                       expert_hidden_size, experts->width));
}

int64_t mlpWidth(const Baseline &baseline, int64_t hidden_size) {
  const int64_t width = baseline.denseWidth();
  return width > 0 ? proportional(width, hidden_size, baseline.architecture.hidden_size) : 0;
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
  const bool latent = reference.kv_rank > 0;
  double squares = latent ? 0 : kKvHeads * changed(shape.kv_heads, reference.kv_heads);
  if (shape.looped_kv_heads > 0) {
    squares += kKvHeads * changed(shape.looped_kv_heads * visits, reference.kv_heads);
  }
  if (shape.looped_kv_rank > 0) {
    squares += kKvHeads * changed(shape.looped_kv_rank * visits, reference.kv_rank);
  }
  if (shape.top_k > 0 && reference.top_k > 0) {
    squares += changed(shape.top_k, reference.top_k);
  }
  return squares + (latent ? squaredLog(ratio(shape.query_heads, shape.kv_rank),
                                        ratio(reference.query_heads, reference.kv_rank))
                           : squaredLog(ratio(shape.query_heads, shape.kv_heads),
                                        ratio(reference.query_heads, reference.kv_heads)));
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
