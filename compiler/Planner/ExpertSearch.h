// The innermost part of a search: with everything else chosen, the best numbers of experts.
#pragma once

#include "compiler/Planner/BudgetLines.h"
#include "compiler/Planner/SearchUnits.h"
#include "compiler/Planner/UnitLatency.h"

#include <optional>
#include <vector>

namespace smelt::planner {

// Numbers of experts.
struct ExpertRange {
  Wide first = 0;
  Wide last = 0;

  bool empty() const { return first > last; }
  // Leaves what keeps the line within margin of target.
  void narrow(const Line &line, Wide target, Wide margin);
  int64_t clamp(Wide value) const;
};

// How far a budget may be from its target for a point to matter; a little more, so that rounding rules out
// nothing.
Wide marginOf(const Target &wish, int64_t budget, double room);

// Gives a collector the points of shapes that matter. Parameters and FLOPs are linear in the experts, so that
// the best numbers follow from them; latency is not, and ranges are halved until none has hope.
class ExpertSearch {
public:
  // Both must outlive it.
  ExpertSearch(const SearchRequest &request, Collector &collector);

  // All shapes from here on are of this unit, which must stay where it is.
  void begin(const Unit &unit);

  // The numbers of experts with which parameters and FLOPs are near enough for points below the bound.
  ExpertRange reachable(const Shape &shape, const Bound &bound, const BudgetPair &pair) const;
  // Weighs the points of a shape; its own experts play no part.
  void visit(Shape &shape, const Bound &bound, const BudgetPair &pair);

  // Predicted latency, of requests that ask for it.
  int64_t predicted(Shape shape, int64_t experts) const;
  // The smallest difference from the target that predictions from `low` to `high` allow, signed.
  double leastLatency(int64_t low, int64_t high) const;

private:
  // Numbers that differ in hardware fit: for a front, the multiples of 8, 4, 2 and 1.
  struct Class {
    Axis axis;
    int64_t missing = 0; // factors of two that the axis' own numbers lack; those of classes before lack less
  };
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
    const BudgetPair &pair;
    std::optional<RankedShape> best = std::nullopt; // seen so far
  };

  void weighSmallestSum(Shape &shape, const Bound &bound, const Axis &axis, const ExpertRange &range,
                        const BudgetPair &pair);
  void weighClosest(Shape &shape, const Bound &bound, const Axis &axis, ExpertRange range,
                    const BudgetPair &pair);
  void weighHalves(const Shape &shape, const Bound &bound, const Axis &axis, const ExpertRange &range,
                   const BudgetPair &pair);
  bool budgetsLeaveHope(const Halving &halving, const ExpertRange &range, int64_t low, int64_t high) const;
  void halve(Halving &halving, const Interval &interval);
  Residuals leastResiduals(const Halving &halving, const Interval &interval) const;
  bool hopeful(const Halving &halving, const Interval &interval, const Residuals &least) const;
  bool better(const RankedShape &a, const RankedShape &b) const;

  Residuals residualsAt(int64_t experts, const BudgetPair &pair) const;
  RankedShape judge(Shape &shape, const Bound &bound, int64_t experts, const BudgetPair &pair) const;
  FrontKey weigh(Shape &shape, const Bound &bound, int64_t experts, const BudgetPair &pair);

  const SearchRequest &request;
  const budget::Budget &target;
  const Targets &targets;
  Collector &collector;
  std::vector<Class> classes;
  const Unit *unit = nullptr;
  mutable std::optional<UnitLatency> latency; // predicting sets its model's sizes
};

} // namespace smelt::planner
