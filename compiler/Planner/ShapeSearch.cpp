#include "compiler/Planner/ShapeSearch.h"

#include "compiler/Planner/BudgetLines.h"
#include "compiler/Planner/SearchUnits.h"
#include "compiler/Planner/UnitLatency.h"
#include "compiler/Planner/WorkQueue.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace smelt::planner {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double relative(Wide value, int64_t target) {
  return static_cast<double>(value - target) / static_cast<double>(target);
}

// Numbers of experts.
struct Range {
  Wide first = 0;
  Wide last = 0;

  bool empty() const { return first > last; }
  // Leaves what keeps the line within margin of target.
  void narrow(const Line &line, Wide target, Wide margin) {
    first = std::max(first, -floorDivide(line.at - (target - margin), line.per_expert));
    last = std::min(last, floorDivide(target + margin - line.at, line.per_expert));
  }
  int64_t clamp(Wide value) const { return static_cast<int64_t>(std::clamp(value, first, last)); }
};

// What all threads read.
struct Context {
  const SearchRequest &request;
  const Shape reference;
  const std::vector<int64_t> hidden_sizes, expert_widths;
  // What follows each of them.
  std::vector<int64_t> mlp_widths, shared_widths;
  // For a front, the multiples of 8, 4, 2 and 1: they differ in hardware fit.
  struct ExpertClass {
    Axis axis;
    int64_t missing = 0; // factors of two that the axis' own numbers lack; those of classes before lack less
  };
  std::vector<ExpertClass> expert_classes;

  explicit Context(const SearchRequest &request)
      : request(request), reference(shapeOf(request.baseline->architecture)),
        hidden_sizes(request.lattice.hidden_size.values()),
        expert_widths(request.lattice.expert_hidden_size.values()) {
    for (const int64_t hidden : hidden_sizes) {
      mlp_widths.push_back(mlpWidth(*request.baseline, hidden));
    }
    for (const int64_t width : expert_widths) {
      shared_widths.push_back(sharedWidth(*request.baseline, width));
    }
    for (int64_t factor = request.goal == Goal::front ? kGoodExperts : 1; factor > 0; factor /= 2) {
      if (const std::optional<Axis> axis = request.lattice.experts.multiplesOf(factor)) {
        expert_classes.push_back(
            {*axis, request.goal == Goal::front ? missingFactors(factor, kGoodExperts) : 0});
      }
    }
  }
};

// Visits one unit after another and gives its collector the points that matter.
class Search {
public:
  Search(const Context &context, Collector &collector)
      : context(context), request(context.request), target(context.request.target),
        targets(context.request.targets), collector(collector) {
    for (const Loop &loop : request.loops) {
      lines_of_loops.emplace_back(*request.baseline, *loop.looped, request.attended);
    }
  }

  void visit(const Unit &next) {
    if (collector.hopeless(next.bound)) {
      return;
    }
    unit = &next;
    lines = &lines_of_loops[next.loop];
    lines->fixHeads(next.shape);
    if (request.latency != nullptr) {
      Shape any = next.shape; // of the widths and experts, which each prediction sets
      any.hidden_size = any.expert_hidden_size = any.experts = 1;
      latency.emplace(*request.baseline, *request.loops[next.loop].looped, any, *request.latency);
    }
    visitHiddenSizes();
  }

private:
  // From the one whose Q/H is the baseline's outward, so that nothing but hopeless ones are left at some
  // point.
  void visitHiddenSizes() {
    const std::vector<int64_t> &sizes = context.hidden_sizes;
    Shape shape = unit->shape;
    const auto squaresAt = [&](size_t index) {
      if (index >= sizes.size()) {
        return kUnlimited;
      }
      shape.hidden_size = sizes[index];
      return queryWidthSquares(shape, context.reference);
    };
    const Shape &from = context.reference;
    const double alike = static_cast<double>(shape.query_heads * shape.head_dim) *
                         static_cast<double>(from.hidden_size) /
                         static_cast<double>(from.query_heads * from.head_dim);
    auto above = static_cast<size_t>(std::lower_bound(sizes.begin(), sizes.end(), alike) - sizes.begin());
    size_t below = above - 1; // wraps around to an index that is none
    double squares_above = squaresAt(above);
    double squares_below = squaresAt(below);
    while (std::min(squares_above, squares_below) < kUnlimited) {
      const bool up = squares_above <= squares_below;
      Bound bound = unit->bound;
      bound.squares += up ? squares_above : squares_below;
      if (collector.hopeless(bound)) {
        return;
      }
      visitHidden(shape, bound, up ? above : below);
      (up ? squares_above : squares_below) = squaresAt(up ? ++above : --below);
    }
  }

  void visitHidden(Shape shape, Bound bound, size_t index) {
    shape.hidden_size = context.hidden_sizes[index];
    bound.misfit += missingFactors(shape.hidden_size, kGoodHiddenSize);
    if (collector.hopeless(bound)) {
      return;
    }
    lines->fixHidden(shape.hidden_size, context.mlp_widths[index]);
    visitExpertWidths(shape, bound);
  }

  BudgetPair pairAt(size_t width_index) const {
    return lines->pairs(context.expert_widths[width_index], context.shared_widths[width_index]);
  }

  void visitExpertWidths(Shape shape, const Bound &from) {
    const auto [first, last] = reachableWidths(from);
    for (size_t i = first; i < last; ++i) {
      shape.expert_hidden_size = context.expert_widths[i];
      Bound bound = from;
      bound.squares += expertWidthSquares(shape, context.reference);
      bound.misfit += missingFactors(shape.expert_hidden_size, kGoodExpertWidth);
      if (collector.hopeless(bound)) {
        continue;
      }
      bound.misfit += paddingPercent(shape);
      if (!collector.hopeless(bound)) {
        visitExperts(shape, bound, pairAt(i));
      }
    }
  }

  // The expert widths, as indices, at which some number of experts gives FLOPs near enough: FLOPs grow with
  // both.
  std::pair<size_t, size_t> reachableWidths(const Bound &bound) const {
    const Wide margin =
        marginOf(targets.training_flops, target.training_flops_per_token, collector.room(bound));
    // The first whose FLOPs with so many experts are at least the amount.
    const auto firstReaching = [&](int64_t experts, Wide amount) {
      size_t low = 0;
      size_t high = context.expert_widths.size();
      while (low < high) {
        const size_t middle = (low + high) / 2;
        if (pairAt(middle).flops(experts) < amount) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    };
    return {
        firstReaching(request.lattice.experts.last(), Wide(target.training_flops_per_token) - margin),
        firstReaching(request.lattice.experts.first(), Wide(target.training_flops_per_token) + margin + 1)};
  }

  // How far a budget may be from its target for a point to matter; a little more, so that rounding rules out
  // nothing.
  Wide marginOf(const Target &wish, int64_t budget, double room) const {
    constexpr double kMost = 1e6;
    double difference = std::min(wish.tolerance, kMost);
    if (wish.weight > 0) {
      difference = std::min(difference, room / wish.weight);
    }
    return static_cast<Wide>((std::max(difference, 0.0) + 1e-12) * (1 + 1e-9) * static_cast<double>(budget)) +
           1;
  }

  // The numbers of experts with which parameters and FLOPs are near enough.
  Range reachableExperts(const Shape &shape, const Bound &bound, const BudgetPair &pair) const {
    const double room = collector.room(bound);
    Range range{std::max(request.lattice.experts.first(), shape.top_k), request.lattice.experts.last()};
    range.narrow(pair.params, target.non_embedding_params,
                 marginOf(targets.non_embedding_params, target.non_embedding_params, room));
    range.narrow(pair.flops, target.training_flops_per_token,
                 marginOf(targets.training_flops, target.training_flops_per_token, room));
    return range;
  }

  void visitExperts(Shape &shape, const Bound &from, const BudgetPair &pair) {
    const auto &[params, flops] = pair;
    for (const Context::ExpertClass &experts : context.expert_classes) {
      Bound bound = from;
      bound.misfit += experts.missing;
      const Range range = reachableExperts(shape, bound, pair);
      if (range.empty()) {
        continue;
      }
      if (request.latency != nullptr) {
        weighHalves(shape, from, experts.axis, range, params, flops);
        continue;
      }
      if (request.goal == Goal::front) {
        weighClosest(shape, from, experts.axis, range, params, flops);
      } else {
        weighSmallestSum(shape, from, experts.axis, range, params, flops);
      }
    }
  }

  // The weighted sum of the absolute values of two lines is convex: over the points of a range it is smallest
  // next to the zero of one of the lines, or at an end of the range.
  void weighSmallestSum(Shape &shape, const Bound &bound, const Axis &axis, const Range &range,
                        const Line &params, const Line &flops) {
    for (const Wide zero : {floorDivide(target.non_embedding_params - params.at, params.per_expert),
                            floorDivide(target.training_flops_per_token - flops.at, flops.per_expert)}) {
      for (const std::optional<int64_t> experts :
           {axis.atOrBelow(range.clamp(zero)), axis.atOrAbove(range.clamp(zero + 1))}) {
        if (experts && *experts >= range.first && *experts <= range.last) {
          weigh(shape, bound, *experts, params, flops);
        }
      }
    }
  }

  // The larger of two weighted absolute values is smallest where they cross between the lines' zeros. Of the
  // numbers of experts as good in the front's eyes, the one with the smallest sum is then looked for.
  void weighClosest(Shape &shape, const Bound &bound, const Axis &axis, Range range, const Line &params,
                    const Line &flops) {
    const double params_scale =
        targets.non_embedding_params.weight / static_cast<double>(target.non_embedding_params);
    const double flops_scale =
        targets.training_flops.weight / static_cast<double>(target.training_flops_per_token);
    const double slope = params_scale * static_cast<double>(params.per_expert) +
                         flops_scale * static_cast<double>(flops.per_expert);
    int64_t residual = -1;
    if (slope > 0) {
      const double at = params_scale * static_cast<double>(params.at - target.non_embedding_params) +
                        flops_scale * static_cast<double>(flops.at - target.training_flops_per_token);
      const auto crossing = static_cast<Wide>(std::floor(-at / slope));
      for (const std::optional<int64_t> experts :
           {axis.atOrBelow(range.clamp(crossing)), axis.atOrAbove(range.clamp(crossing)),
            axis.atOrAbove(range.clamp(crossing + 1))}) {
        if (experts && *experts >= range.first && *experts <= range.last) {
          const int64_t reached = weigh(shape, bound, *experts, params, flops).residual;
          residual = residual < 0 ? reached : std::min(residual, reached);
        }
      }
    }
    if (residual >= 0) {
      const double room = static_cast<double>(residual) * kResidualStep;
      narrowTo(range, params, targets.non_embedding_params, target.non_embedding_params, room);
      narrowTo(range, flops, targets.training_flops, target.training_flops_per_token, room);
    }
    if (!range.empty()) {
      weighSmallestSum(shape, bound, axis, range, params, flops);
    }
  }

  static void narrowTo(Range &range, const Line &line, const Target &wish, int64_t budget, double room) {
    if (wish.weight > 0) {
      range.narrow(line, budget, static_cast<Wide>(room / wish.weight * static_cast<double>(budget)));
    }
  }

  // Some numbers of experts of one shape, and the prediction for the fewest and the most of them.
  struct Interval {
    int64_t low = 0, high = 0;
    int64_t low_time = 0, high_time = 0;
  };

  // What stays the same while the experts of a shape are halved again and again.
  struct Halving {
    Shape shape;
    const Bound &bound;
    const Axis &axis;
    const Line &params;
    const Line &flops;
    std::optional<RankedShape> best = std::nullopt; // seen so far
  };

  // Latency is no straight line in the experts, but it never shrinks when there are more. So the ends of an
  // interval bound all differences within it; intervals without hope are left out, others halved.
  void weighHalves(const Shape &shape, const Bound &bound, const Axis &axis, const Range &range,
                   const Line &params, const Line &flops) {
    const std::optional<int64_t> low = axis.atOrAbove(range.clamp(range.first));
    const std::optional<int64_t> high = axis.atOrBelow(range.clamp(range.last));
    if (!low || !high || *low > *high) {
      return;
    }
    Halving halving{shape, bound, axis, params, flops};
    if (budgetsLeaveHope(halving, range, *low, *high)) {
      halve(halving, {*low, *high, predicted(shape, *low), predicted(shape, *high)});
    }
  }

  // A first look at the budgets that are straight lines, because predictions cost more: their sum is convex,
  // so the smallest is next to the zero of one of them or at an end.
  bool budgetsLeaveHope(const Halving &halving, const Range &range, int64_t low, int64_t high) const {
    Bound bound = halving.bound;
    const auto residuals = [&](int64_t experts) {
      return residualsAt(experts, halving.params, halving.flops);
    };
    if (request.goal != Goal::front) {
      bound.sum = std::min(residuals(low).sum(targets), residuals(high).sum(targets));
      for (const auto &[line, wanted] : {std::pair(&halving.params, target.non_embedding_params),
                                         std::pair(&halving.flops, target.training_flops_per_token)}) {
        const Wide zero = floorDivide(wanted - line->at, line->per_expert);
        for (const std::optional<int64_t> experts :
             {halving.axis.atOrBelow(range.clamp(zero)), halving.axis.atOrAbove(range.clamp(zero + 1))}) {
          if (experts && *experts >= low && *experts <= high) {
            bound.sum = std::min(bound.sum, residuals(*experts).sum(targets));
          }
        }
      }
    }
    return !collector.hopeless(bound);
  }

  void halve(Halving &halving, const Interval &interval) {
    const Residuals least = leastResiduals(halving, interval);
    if (!least.within(targets) || !hopeful(halving, interval, least)) {
      return;
    }
    if (interval.low == interval.high) {
      const RankedShape ranked =
          judge(halving.shape, halving.bound, interval.low, halving.params, halving.flops);
      if (ranked.residuals.within(targets)) {
        collector.take(ranked);
        if (!halving.best || better(ranked, *halving.best)) {
          halving.best = ranked;
        }
      }
      return;
    }
    const int64_t middle = interval.low + (interval.high - interval.low) / 2;
    Interval left = interval;
    Interval right = interval;
    left.high = *halving.axis.atOrBelow(middle);
    right.low = *halving.axis.atOrAbove(middle + 1);
    left.high_time = left.high == left.low ? left.low_time : predicted(halving.shape, left.high);
    right.low_time = right.low == right.high ? right.high_time : predicted(halving.shape, right.low);
    const bool right_first =
        leastResiduals(halving, right).sum(targets) < leastResiduals(halving, left).sum(targets);
    halve(halving, right_first ? right : left);
    halve(halving, right_first ? left : right);
  }

  // The smallest differences that the ends of an interval allow within it.
  Residuals leastResiduals(const Halving &halving, const Interval &interval) const {
    const auto between = [](double low, double high) { return low > 0 ? low : high < 0 ? high : 0.0; };
    const Residuals low = residualsAt(interval.low, halving.params, halving.flops);
    const Residuals high = residualsAt(interval.high, halving.params, halving.flops);
    // Between the ends, a prediction rounded to whole picoseconds may be a little beyond theirs.
    const Wide slack = interval.low == interval.high ? 0 : 2 + Wide(interval.high_time) / 1'000'000'000'000;
    return {.training_flops = between(low.training_flops, high.training_flops),
            .non_embedding_params = between(low.non_embedding_params, high.non_embedding_params),
            .kv_cache = unit->kv_residual,
            .latency = between(relative(interval.low_time - slack, request.target_picoseconds),
                               relative(interval.high_time + slack, request.target_picoseconds))};
  }

  // Whether a point with at least these differences could be among the collected ones, and better than all of
  // its shape so far. A front looks at each kind of experts by itself, so that misfits need no comparing.
  bool hopeful(const Halving &halving, const Interval &interval, const Residuals &least) const {
    Bound bound = halving.bound;
    bound.sum = least.sum(targets);
    bound.worst = least.worst(targets);
    if (interval.low == interval.high) {
      bound.misfit += missingFactors(interval.low, kGoodExperts);
    }
    if (collector.hopeless(bound)) {
      return false;
    }
    RankedShape hope{.shape = halving.shape, .loop = unit->loop};
    hope.shape.experts = interval.low;
    hope.worst = least.worst(targets);
    hope.sum = least.sum(targets);
    hope.score = std::sqrt(halving.bound.squares) + kResidualWeight * hope.sum;
    return !halving.best || better(hope, *halving.best);
  }

  // Of two points that differ in the experts alone.
  bool better(const RankedShape &a, const RankedShape &b) const {
    const int64_t a_step = frontKey(a.worst, 0, 0).residual;
    const int64_t b_step = frontKey(b.worst, 0, 0).residual;
    if (request.goal == Goal::front && a_step != b_step) {
      return a_step < b_step;
    }
    return request.goal == Goal::nearest && a.sum != b.sum ? a.sum < b.sum : a < b;
  }

  int64_t predicted(Shape shape, int64_t experts) const {
    shape.experts = experts;
    return latency->picoseconds(shape);
  }

  Residuals residualsAt(int64_t experts, const Line &params, const Line &flops) const {
    return {.training_flops = relative(flops(experts), target.training_flops_per_token),
            .non_embedding_params = relative(params(experts), target.non_embedding_params),
            .kv_cache = unit->kv_residual};
  }

  FrontKey weigh(Shape &shape, const Bound &bound, int64_t experts, const Line &params, const Line &flops) {
    const RankedShape ranked = judge(shape, bound, experts, params, flops);
    if (ranked.residuals.within(targets)) {
      collector.take(ranked);
    }
    return frontKey(ranked);
  }

  RankedShape judge(Shape &shape, const Bound &bound, int64_t experts, const Line &params,
                    const Line &flops) const {
    shape.experts = experts;
    RankedShape ranked{.shape = shape, .loop = unit->loop};
    ranked.residuals = residualsAt(experts, params, flops);
    if (request.latency != nullptr) {
      ranked.residuals.latency = relative(predicted(shape, experts), request.target_picoseconds);
    }
    ranked.worst = ranked.residuals.worst(targets);
    ranked.sum = ranked.residuals.sum(targets);
    ranked.shape_distance = std::sqrt(bound.squares);
    ranked.score = ranked.shape_distance + kResidualWeight * ranked.sum;
    ranked.fit = hardwareFit(shape);
    return ranked;
  }

  const Context &context;
  const SearchRequest &request;
  const budget::Budget &target;
  const Targets &targets;
  Collector &collector;
  std::vector<BudgetLines> lines_of_loops;
  const Unit *unit = nullptr;
  BudgetLines *lines = nullptr;               // of the unit's loop
  mutable std::optional<UnitLatency> latency; // predicting sets its model's sizes
};

} // namespace

std::vector<RankedShape> searchShapes(const SearchRequest &request) {
  const Context context(request);
  const std::vector<Unit> units = listUnits(request);
  const unsigned threads = threadCount(request.threads, units.size());
  std::vector<std::unique_ptr<Collector>> collectors;
  std::vector<Search> searches;
  searches.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) {
    collectors.push_back(makeCollector(request.goal, request.keep));
    for (const RankedShape &known : request.known) {
      collectors.back()->take(known);
    }
    searches.emplace_back(context, *collectors.back());
  }
  runUnits(
      threads, units.size(), [&](unsigned thread, size_t unit) { searches[thread].visit(units[unit]); },
      request.progress);
  for (unsigned i = 1; i < threads; ++i) {
    for (const RankedShape &ranked : collectors[i]->points()) {
      collectors[0]->take(ranked);
    }
  }
  return collectors[0]->points();
}

} // namespace smelt::planner
