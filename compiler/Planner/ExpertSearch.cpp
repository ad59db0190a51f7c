#include "compiler/Planner/ExpertSearch.h"

#include <algorithm>
#include <cmath>

namespace smelt::planner {
namespace {

double relative(Wide value, int64_t target) {
  return static_cast<double>(value - target) / static_cast<double>(target);
}

void narrowTo(ExpertRange &range, const Line &line, const Target &wish, int64_t budget, double room) {
  if (wish.weight > 0) {
    range.narrow(line, budget, static_cast<Wide>(room / wish.weight * static_cast<double>(budget)));
  }
}

// The value nearest to 0 between two.
double between(double low, double high) { return low > 0 ? low : high < 0 ? high : 0.0; }

} // namespace

void ExpertRange::narrow(const Line &line, Wide target, Wide margin) {
  first = std::max(first, -floorDivide(line.at - (target - margin), line.per_expert));
  last = std::min(last, floorDivide(target + margin - line.at, line.per_expert));
}

int64_t ExpertRange::clamp(Wide value) const { return static_cast<int64_t>(std::clamp(value, first, last)); }

Wide marginOf(const Target &wish, int64_t budget, double room) {
  constexpr double kMost = 1e6;
  double difference = std::min(wish.tolerance, kMost);
  if (wish.weight > 0) {
    difference = std::min(difference, room / wish.weight);
  }
  return static_cast<Wide>((std::max(difference, 0.0) + 1e-12) * (1 + 1e-9) * static_cast<double>(budget)) +
         1;
}

ExpertSearch::ExpertSearch(const SearchRequest &request, Collector &collector)
    : request(request), target(request.target), targets(request.targets), collector(collector) {
  const bool front = request.goal == Goal::front;
  for (int64_t factor = front ? kGoodExperts : 1; factor > 0; factor /= 2) {
    if (const std::optional<Axis> axis = request.lattice.experts.multiplesOf(factor)) {
      classes.push_back({*axis, front ? missingFactors(factor, kGoodExperts) : 0});
    }
  }
}

void ExpertSearch::begin(const Unit &next) {
  unit = &next;
  if (request.latency != nullptr) {
    Shape any = next.shape; // of the widths and experts, which each prediction sets
    any.hidden_size = any.expert_hidden_size = any.experts = 1;
    latency.emplace(*request.baseline, *request.loops[next.loop].looped, any, *request.latency);
  }
}

ExpertRange ExpertSearch::reachable(const Shape &shape, const Bound &bound, const BudgetPair &pair) const {
  const double room = collector.room(bound);
  ExpertRange range{std::max(request.lattice.experts.first(), shape.top_k), request.lattice.experts.last()};
  range.narrow(pair.params, target.non_embedding_params,
               marginOf(targets.non_embedding_params, target.non_embedding_params, room));
  range.narrow(pair.flops, target.training_flops_per_token,
               marginOf(targets.training_flops, target.training_flops_per_token, room));
  return range;
}

void ExpertSearch::visit(Shape &shape, const Bound &from, const BudgetPair &pair) {
  for (const Class &experts : classes) {
    Bound bound = from;
    bound.misfit += experts.missing;
    const ExpertRange range = reachable(shape, bound, pair);
    if (range.empty()) {
      continue;
    }
    if (request.latency != nullptr) {
      weighHalves(shape, from, experts.axis, range, pair);
      continue;
    }
    if (request.goal == Goal::front) {
      weighClosest(shape, from, experts.axis, range, pair);
    } else {
      weighSmallestSum(shape, from, experts.axis, range, pair);
    }
  }
}

// The weighted sum of the absolute values of two lines is convex: over the points of a range it is smallest
// next to the zero of one of the lines, or at an end of the range.
void ExpertSearch::weighSmallestSum(Shape &shape, const Bound &bound, const Axis &axis,
                                    const ExpertRange &range, const BudgetPair &pair) {
  const auto &[params, flops] = pair;
  for (const Wide zero : {floorDivide(target.non_embedding_params - params.at, params.per_expert),
                          floorDivide(target.training_flops_per_token - flops.at, flops.per_expert)}) {
    for (const std::optional<int64_t> experts :
         {axis.atOrBelow(range.clamp(zero)), axis.atOrAbove(range.clamp(zero + 1))}) {
      if (experts && *experts >= range.first && *experts <= range.last) {
        weigh(shape, bound, *experts, pair);
      }
    }
  }
}

// The larger of two weighted absolute values is smallest where they cross between the lines' zeros. Of the
// numbers of experts as good in the front's eyes, the one with the smallest sum is then looked for.
void ExpertSearch::weighClosest(Shape &shape, const Bound &bound, const Axis &axis, ExpertRange range,
                                const BudgetPair &pair) {
  const auto &[params, flops] = pair;
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
        const int64_t reached = weigh(shape, bound, *experts, pair).residual;
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
    weighSmallestSum(shape, bound, axis, range, pair);
  }
}

// Latency is no straight line in the experts, but it never shrinks when there are more. So the ends of an
// interval bound all differences within it; intervals without hope are left out, others halved.
void ExpertSearch::weighHalves(const Shape &shape, const Bound &bound, const Axis &axis,
                               const ExpertRange &range, const BudgetPair &pair) {
  const std::optional<int64_t> low = axis.atOrAbove(range.clamp(range.first));
  const std::optional<int64_t> high = axis.atOrBelow(range.clamp(range.last));
  if (!low || !high || *low > *high) {
    return;
  }
  Halving halving{shape, bound, axis, pair};
  if (budgetsLeaveHope(halving, range, *low, *high)) {
    halve(halving, {*low, *high, predicted(shape, *low), predicted(shape, *high)});
  }
}

// A first look at the budgets that are straight lines, because predictions cost more: their sum is convex,
// so the smallest is next to the zero of one of them or at an end.
bool ExpertSearch::budgetsLeaveHope(const Halving &halving, const ExpertRange &range, int64_t low,
                                    int64_t high) const {
  Bound bound = halving.bound;
  const auto residuals = [&](int64_t experts) { return residualsAt(experts, halving.pair); };
  if (request.goal != Goal::front) {
    bound.sum = std::min(residuals(low).sum(targets), residuals(high).sum(targets));
    for (const auto &[line, wanted] : {std::pair(&halving.pair.params, target.non_embedding_params),
                                       std::pair(&halving.pair.flops, target.training_flops_per_token)}) {
      const Wide zero = floorDivide(wanted - line->at, line->per_expert);
      for (const std::optional<int64_t> experts :
           {halving.axis.atOrBelow(range.clamp(zero)), halving.axis.atOrAbove(range.clamp(zero + 1))}) {
        if (experts && *experts >= low && *experts <= high) {
          bound.sum = std::min(bound.sum, residuals(*experts).sum(targets));
        }
      }
    }
    bound.sum += halving.bound.sum - unit->bound.sum; // what latency takes at least
  }
  return !collector.hopeless(bound);
}

void ExpertSearch::halve(Halving &halving, const Interval &interval) {
  const Residuals least = leastResiduals(halving, interval);
  if (!least.within(targets) || !hopeful(halving, interval, least)) {
    return;
  }
  if (interval.low == interval.high) {
    const RankedShape ranked = judge(halving.shape, halving.bound, interval.low, halving.pair);
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

double ExpertSearch::leastLatency(int64_t low, int64_t high) const {
  // Rounded to whole picoseconds, one may be a little beyond those of the ends.
  const Wide slack = 2 + Wide(high) / 1'000'000'000'000;
  return between(relative(low - slack, request.target_picoseconds),
                 relative(high + slack, request.target_picoseconds));
}

// The smallest differences that the ends of an interval allow within it.
Residuals ExpertSearch::leastResiduals(const Halving &halving, const Interval &interval) const {
  const Residuals low = residualsAt(interval.low, halving.pair);
  const Residuals high = residualsAt(interval.high, halving.pair);
  return {.training_flops = between(low.training_flops, high.training_flops),
          .non_embedding_params = between(low.non_embedding_params, high.non_embedding_params),
          .kv_cache = unit->kv_residual,
          .latency = leastLatency(interval.low_time, interval.high_time)};
}

// Whether a point with at least these differences could be among the collected ones, and better than all of
// its shape so far. A front looks at each kind of experts by itself, so that misfits need no comparing.
bool ExpertSearch::hopeful(const Halving &halving, const Interval &interval, const Residuals &least) const {
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
bool ExpertSearch::better(const RankedShape &a, const RankedShape &b) const {
  const int64_t a_step = frontKey(a.worst, 0, 0).residual;
  const int64_t b_step = frontKey(b.worst, 0, 0).residual;
  if (request.goal == Goal::front && a_step != b_step) {
    return a_step < b_step;
  }
  return request.goal == Goal::nearest && a.sum != b.sum ? a.sum < b.sum : a < b;
}

int64_t ExpertSearch::predicted(Shape shape, int64_t experts) const {
  shape.experts = experts;
  return latency->picoseconds(shape);
}

Residuals ExpertSearch::residualsAt(int64_t experts, const BudgetPair &pair) const {
  return {.training_flops = relative(pair.flops(experts), target.training_flops_per_token),
          .non_embedding_params = relative(pair.params(experts), target.non_embedding_params),
          .kv_cache = unit->kv_residual};
}

FrontKey ExpertSearch::weigh(Shape &shape, const Bound &bound, int64_t experts, const BudgetPair &pair) {
  const RankedShape ranked = judge(shape, bound, experts, pair);
  if (ranked.residuals.within(targets)) {
    collector.take(ranked);
  }
  return frontKey(ranked);
}

RankedShape ExpertSearch::judge(Shape &shape, const Bound &bound, int64_t experts,
                                const BudgetPair &pair) const {
  shape.experts = experts;
  RankedShape ranked{.shape = shape, .loop = unit->loop};
  ranked.residuals = residualsAt(experts, pair);
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

} // namespace smelt::planner
