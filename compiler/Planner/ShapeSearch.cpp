#include "compiler/Planner/ShapeSearch.h"

#include "compiler/Spec/SpecValidator.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace smelt::planner {
namespace {

using spec::FfnKind;
using spec::ModelSpec;
using spec::QkNorm;
using spec::Segment;

// Products of valid specs' dimensions, layers, visits and attended positions stay below 2^127.
using Wide = __int128;

constexpr int64_t kProportionalStep = 8;

// value x numerator / denominator to the nearest multiple of 8, at least one.
int64_t proportional(int64_t value, int64_t numerator, int64_t denominator) {
  const Wide divisor = Wide(denominator) * kProportionalStep;
  const Wide steps = (2 * Wide(value) * numerator + divisor) / (2 * divisor);
  return std::max<int64_t>(1, static_cast<int64_t>(steps)) * kProportionalStep;
}

double squaredLog(double ratio) {
  const double value = std::log(ratio);
  return value * value;
}

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

double relative(Wide value, int64_t target) {
  return static_cast<double>(value - target) / static_cast<double>(target);
}

// A budget as a function of the number of experts: at + per_expert x experts.
struct Line {
  Wide at = 0;
  Wide per_expert = 0;

  Wide operator()(int64_t experts) const { return at + per_expert * experts; }
};

Wide floorDivide(Wide a, Wide b) {
  const Wide quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

// A range of numbers of experts, counted in steps of the lattice.
struct Steps {
  Wide first = 0;
  Wide last = 0;

  // Leaves what keeps the line within margin of target.
  void narrow(const Line &line, Wide target, Wide margin, int64_t step) {
    const Wide per_step = line.per_expert * step;
    first = std::max(first, -floorDivide(line.at - (target - margin), per_step));
    last = std::min(last, floorDivide(target + margin - line.at, per_step));
  }
};

// How many layers of each kind a model has, stored and executed.
struct LayerCounts {
  int64_t stored = 0, executed = 0;
  int64_t moe_stored = 0, moe_executed = 0;
  int64_t dense_stored = 0, dense_executed = 0;
  int64_t biased = 0, per_head_norm = 0, full_width_norm = 0;

  explicit LayerCounts(const ModelSpec &spec) {
    for (const Segment &segment : spec.segments) {
      const bool moe = segment.ffn == FfnKind::moe;
      stored += segment.layers;
      executed += segment.executedLayers();
      (moe ? moe_stored : dense_stored) += segment.layers;
      (moe ? moe_executed : dense_executed) += segment.executedLayers();
      biased += segment.attention.qkv_bias ? segment.layers : 0;
      per_head_norm += segment.attention.qk_norm == QkNorm::per_head ? segment.layers : 0;
      full_width_norm += segment.attention.qk_norm == QkNorm::full_width ? segment.layers : 0;
    }
  }
};

class Search {
public:
  explicit Search(const SearchRequest &request)
      : request(request), baseline(*request.baseline), counts(*request.looped), reference(shapeOf(baseline)) {
  }

  SearchResult run() {
    visitLattice();
    if (result.matches.empty()) {
      wanting_nearest = true;
      visitLattice();
    }
    return std::move(result);
  }

private:
  // Lower bounds known so far on the way to a point.
  struct Partial {
    double squares = 0;   // of the shape distance
    double residuals = 0; // sum

    double bound() const { return std::sqrt(squares) + kResidualWeight * residuals; }
  };

  // Nothing with this bound can enter the result. Strict, so that equal scores are all seen.
  bool hopeless(const Partial &partial) const {
    if (wanting_nearest) {
      return result.nearest && partial.residuals > result.nearest->residuals.sum();
    }
    return result.matches.size() == request.keep && partial.bound() > result.matches.back().score;
  }

  // How far a budget may be from its target for a point to matter; a little more, so that rounding rules out
  // nothing.
  Wide margin(const Partial &partial, int64_t target) const {
    constexpr double kUnlimited = 1e6;
    double residual = kUnlimited;
    if (wanting_nearest) {
      residual = result.nearest ? result.nearest->residuals.sum() - partial.residuals : residual;
    } else {
      residual = request.tolerance;
      if (result.matches.size() == request.keep) {
        residual = std::min(residual, (result.matches.back().score - partial.bound()) / kResidualWeight);
      }
    }
    return static_cast<Wide>((std::max(residual, 0.0) + 1e-12) * (1 + 1e-9) * static_cast<double>(target)) +
           1;
  }

  void visitLattice() {
    // Closest KV cache first: its bound then rules out most of the rest.
    std::vector<std::tuple<double, int64_t, int64_t>> caches;
    const Axis &dims = request.lattice.head_dim;
    for (int64_t kv_heads : request.lattice.kv_heads) {
      for (int64_t dim = dims.first(); dim <= dims.last(); dim += dims.step) {
        caches.emplace_back(std::fabs(kvResidual(kv_heads, dim)), kv_heads, dim);
      }
    }
    std::sort(caches.begin(), caches.end());
    for (const auto &[residual, kv_heads, dim] : caches) {
      if (wanting_nearest || residual <= request.tolerance) {
        Shape shape{.kv_heads = kv_heads, .head_dim = dim};
        visitQueryHeads(shape, {squaredLog(ratio(kv_heads, reference.kv_heads)), residual});
      }
    }
  }

  double kvResidual(int64_t kv_heads, int64_t head_dim) const {
    return relative(Wide(2) * counts.executed * kv_heads * head_dim, request.target.kv_elements_per_token);
  }

  void visitQueryHeads(Shape &shape, const Partial &partial) {
    const double grouping = ratio(reference.query_heads, reference.kv_heads);
    for (shape.query_heads = shape.kv_heads; shape.query_heads <= request.lattice.max_query_heads;
         shape.query_heads += shape.kv_heads) {
      Partial next = partial;
      next.squares += squaredLog(ratio(shape.query_heads, shape.kv_heads) / grouping);
      if (shape.query_heads * shape.head_dim <= spec::Limits::width && !hopeless(next)) {
        visitHidden(shape, next);
      }
    }
  }

  void visitHidden(Shape &shape, const Partial &partial) {
    const double wide = ratio(reference.query_heads * reference.head_dim, reference.hidden_size);
    const Axis &axis = request.lattice.hidden_size;
    for (shape.hidden_size = axis.first(); shape.hidden_size <= axis.last(); shape.hidden_size += axis.step) {
      Partial next = partial;
      next.squares += squaredLog(ratio(shape.query_heads * shape.head_dim, shape.hidden_size) / wide);
      if (!hopeless(next)) {
        visitExpertWidth(shape, next);
      }
    }
  }

  void visitExpertWidth(Shape &shape, const Partial &partial) {
    const double wide = ratio(reference.expert_hidden_size, reference.hidden_size);
    const auto [first, last] = reachableWidths(shape, partial);
    const int64_t step = request.lattice.expert_hidden_size.step;
    for (shape.expert_hidden_size = first; shape.expert_hidden_size <= last;
         shape.expert_hidden_size += step) {
      Partial next = partial;
      next.squares += squaredLog(ratio(shape.expert_hidden_size, shape.hidden_size) / wide);
      if (!hopeless(next)) {
        visitExperts(shape, next);
      }
    }
  }

  // The expert widths at which some number of experts gives FLOPs near enough: FLOPs grow with both.
  std::pair<int64_t, int64_t> reachableWidths(const Shape &shape, const Partial &partial) const {
    const Axis &axis = request.lattice.expert_hidden_size;
    const Wide target = request.target.training_flops_per_token;
    const Wide most = margin(partial, request.target.training_flops_per_token);
    // Smallest multiple of the step in the range, or one step past it, whose FLOPs reach the amount.
    const auto firstReaching = [&](int64_t experts, Wide amount) {
      int64_t low = axis.first() / axis.step;
      int64_t high = axis.last() / axis.step + 1;
      Shape probe = shape;
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        probe.expert_hidden_size = middle * axis.step;
        trainingFlops(probe)(experts) >= amount ? high = middle : low = middle + 1;
      }
      return low * axis.step;
    };
    return {firstReaching(request.lattice.experts.last(), target - most),
            firstReaching(request.lattice.experts.first(), target + most + 1) - axis.step};
  }

  Line params(const Shape &shape) const {
    const Wide hidden = shape.hidden_size;
    const Wide query = Wide(shape.query_heads) * shape.head_dim;
    const Wide kv = Wide(shape.kv_heads) * shape.head_dim;
    Line line;
    line.at = counts.stored * 2 * hidden * (query + kv + 1) + counts.biased * (query + 2 * kv) +
              counts.per_head_norm * 2 * Wide(shape.head_dim) + counts.full_width_norm * (query + kv) +
              counts.moe_stored * 3 * hidden * sharedWidth(shape) +
              counts.dense_stored * 3 * hidden * mlpWidth(shape);
    line.per_expert = counts.moe_stored * hidden * (1 + 3 * Wide(shape.expert_hidden_size));
    return line;
  }

  Line trainingFlops(const Shape &shape) const {
    const Wide hidden = shape.hidden_size;
    const Wide query = Wide(shape.query_heads) * shape.head_dim;
    const Wide kv = Wide(shape.kv_heads) * shape.head_dim;
    const Wide active = Wide(baseline.moe->top_k) * shape.expert_hidden_size + sharedWidth(shape);
    const Wide scores = query * (4 * Wide(request.attended.whole()) + (request.attended.half() ? 2 : 0));
    Line line;
    line.at = 3 * (counts.executed * (4 * hidden * (query + kv) + scores) +
                   counts.moe_executed * 6 * hidden * active +
                   counts.dense_executed * 6 * hidden * mlpWidth(shape));
    line.per_expert = 3 * counts.moe_executed * 2 * hidden;
    return line;
  }

  int64_t sharedWidth(const Shape &shape) const {
    const spec::Moe &moe = *baseline.moe;
    return moe.shared_experts == 0
               ? 0
               : moe.shared_experts * proportional(moe.shared_expert_hidden_size, shape.expert_hidden_size,
                                                   moe.expert_hidden_size);
  }

  int64_t mlpWidth(const Shape &shape) const {
    return baseline.mlp ? proportional(baseline.mlp->hidden_size, shape.hidden_size, baseline.hidden_size)
                        : 0;
  }

  // The sum of the absolute values of two lines is convex: over the whole steps of a range it is smallest
  // next to the zero of one of the lines, or at an end of the range.
  void visitExperts(Shape &shape, const Partial &partial) {
    const Line stored = params(shape);
    const Line flops = trainingFlops(shape);
    const int64_t step = request.lattice.experts.step;
    Steps steps{Wide(request.lattice.experts.first()) / step, Wide(request.lattice.experts.last()) / step};
    steps.narrow(stored, request.target.non_embedding_params,
                 margin(partial, request.target.non_embedding_params), step);
    steps.narrow(flops, request.target.training_flops_per_token,
                 margin(partial, request.target.training_flops_per_token), step);
    if (steps.first > steps.last) {
      return;
    }
    for (const Wide zero :
         {floorDivide(request.target.non_embedding_params - stored.at, stored.per_expert * step),
          floorDivide(request.target.training_flops_per_token - flops.at, flops.per_expert * step)}) {
      for (const Wide at : {zero, zero + 1}) {
        shape.experts = static_cast<int64_t>(std::clamp(at, steps.first, steps.last)) * step;
        weigh(shape, partial, stored(shape.experts), flops(shape.experts));
      }
    }
  }

  void weigh(const Shape &shape, const Partial &partial, Wide stored, Wide flops) {
    RankedShape ranked{.shape = shape};
    ranked.residuals = {.training_flops = relative(flops, request.target.training_flops_per_token),
                        .non_embedding_params = relative(stored, request.target.non_embedding_params),
                        .kv_cache = kvResidual(shape.kv_heads, shape.head_dim)};
    ranked.shape_distance = std::sqrt(partial.squares);
    ranked.score = ranked.shape_distance + kResidualWeight * ranked.residuals.sum();
    if (wanting_nearest) {
      keepNearest(ranked);
    } else if (ranked.residuals.worst() <= request.tolerance) {
      keepMatch(ranked);
    }
  }

  void keepNearest(const RankedShape &ranked) {
    const auto key = [](const RankedShape &r) { return std::tuple(r.residuals.sum(), r.score, r.shape); };
    if (!result.nearest || key(ranked) < key(*result.nearest)) {
      result.nearest = ranked;
    }
  }

  // One match for each choice of everything but the experts.
  void keepMatch(const RankedShape &ranked) {
    std::vector<RankedShape> &matches = result.matches;
    const auto same = std::find_if(matches.begin(), matches.end(), [&](const RankedShape &other) {
      Shape shape = other.shape;
      shape.experts = ranked.shape.experts;
      return shape == ranked.shape;
    });
    if (same != matches.end()) {
      if (!(ranked < *same)) {
        return;
      }
      matches.erase(same);
    }
    matches.insert(std::upper_bound(matches.begin(), matches.end(), ranked), ranked);
    if (matches.size() > request.keep) {
      matches.pop_back();
    }
  }

  const SearchRequest &request;
  const ModelSpec &baseline;
  const LayerCounts counts;
  const Shape reference;
  SearchResult result;
  bool wanting_nearest = false;
};

} // namespace

double Residuals::worst() const {
  return std::max({std::fabs(training_flops), std::fabs(non_embedding_params), std::fabs(kv_cache)});
}

// The KV cache first: the search knows it first, and a partial sum is then never above the whole.
double Residuals::sum() const {
  return std::fabs(kv_cache) + std::fabs(training_flops) + std::fabs(non_embedding_params);
}

bool RankedShape::operator<(const RankedShape &other) const {
  return std::tie(score, shape) < std::tie(other.score, other.shape);
}

SearchResult searchShapes(const SearchRequest &request) { return Search(request).run(); }

ModelSpec applyShape(const ModelSpec &spec, const Shape &shape) {
  ModelSpec result = spec;
  const auto apply = [&](spec::Attention &attention) {
    attention.query_heads = shape.query_heads;
    attention.kv_heads = shape.kv_heads;
    attention.head_dim = shape.head_dim;
  };
  result.hidden_size = shape.hidden_size;
  apply(result.attention);
  for (Segment &segment : result.segments) {
    apply(segment.attention);
  }
  if (spec.mlp) {
    result.mlp->hidden_size = proportional(spec.mlp->hidden_size, shape.hidden_size, spec.hidden_size);
  }
  if (spec.moe) {
    result.moe->experts = shape.experts;
    result.moe->expert_hidden_size = shape.expert_hidden_size;
    if (spec.moe->shared_experts > 0) {
      result.moe->shared_expert_hidden_size = proportional(
          spec.moe->shared_expert_hidden_size, shape.expert_hidden_size, spec.moe->expert_hidden_size);
    }
  }
  return result;
}

double shapeDistance(const Shape &shape, const Shape &reference) {
  const auto query = [](const Shape &s) { return s.query_heads * s.head_dim; };
  double squares = squaredLog(ratio(shape.kv_heads, reference.kv_heads));
  squares +=
      squaredLog(ratio(shape.query_heads, shape.kv_heads) / ratio(reference.query_heads, reference.kv_heads));
  squares +=
      squaredLog(ratio(query(shape), shape.hidden_size) / ratio(query(reference), reference.hidden_size));
  squares += squaredLog(ratio(shape.expert_hidden_size, shape.hidden_size) /
                        ratio(reference.expert_hidden_size, reference.hidden_size));
  return std::sqrt(squares);
}

Shape shapeOf(const ModelSpec &spec) {
  Shape shape{.hidden_size = spec.hidden_size,
              .query_heads = spec.attention.query_heads,
              .kv_heads = spec.attention.kv_heads,
              .head_dim = spec.attention.head_dim};
  if (spec.moe) {
    shape.expert_hidden_size = spec.moe->expert_hidden_size;
    shape.experts = spec.moe->experts;
  }
  return shape;
}

} // namespace smelt::planner
