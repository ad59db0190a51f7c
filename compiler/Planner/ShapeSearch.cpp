#include "compiler/Planner/ShapeSearch.h"

#include "compiler/Planner/BudgetLines.h"
#include "compiler/Planner/ExpertSearch.h"
#include "compiler/Planner/SearchUnits.h"
#include "compiler/Planner/WorkQueue.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace smelt::planner {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// What all threads read.
struct Context {
  const SearchRequest &request;
  const Shape reference;
  const std::vector<int64_t> hidden_sizes, expert_widths;
  // What follows each of them.
  std::vector<int64_t> mlp_widths, shared_widths;

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
  }
};

// Visits one unit after another and gives its collector the points that matter.
class Search {
public:
  Search(const Context &context, Collector &collector)
      : context(context), request(context.request), target(context.request.target),
        targets(context.request.targets), collector(collector), experts(context.request, collector) {
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
    experts.begin(next);
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

  void visitExpertWidths(Shape &shape, const Bound &from) {
    const auto [first, last] = reachableWidths(from);
    if (request.latency != nullptr) {
      if (const auto widths = boundedWidths(shape, from, first, last)) {
        visitWidths(shape, *widths);
      }
      return;
    }
    for (size_t i = first; i < last; ++i) {
      visitWidth(shape, from, i);
    }
  }

  void visitWidth(Shape &shape, const Bound &from, size_t index) {
    shape.expert_hidden_size = context.expert_widths[index];
    Bound bound = from;
    bound.squares += expertWidthSquares(shape, context.reference);
    bound.misfit += missingFactors(shape.expert_hidden_size, kGoodExpertWidth);
    if (collector.hopeless(bound)) {
      return;
    }
    bound.misfit += paddingPercent(shape);
    if (!collector.hopeless(bound)) {
      experts.visit(shape, bound, pairAt(index));
    }
  }

  // Expert widths, as indices, and what is known of all points with any of them.
  struct Widths {
    size_t first = 0, last = 0;
    Bound bound;
  };

  // What the predictions for the ends of a range of widths say of all within it; nothing when there is no
  // hope.
  std::optional<Widths> boundedWidths(Shape &shape, const Bound &from, size_t first, size_t last) const {
    const auto hasExperts = [&](size_t index) {
      return !experts.reachable(shape, from, pairAt(index)).empty();
    };
    while (first < last && !hasExperts(first)) {
      ++first;
    }
    while (first < last && !hasExperts(last - 1)) {
      --last;
    }
    Widths widths{first, last, from};
    if (first >= last || !boundLatency(shape, widths) || collector.hopeless(widths.bound)) {
      return std::nullopt;
    }
    // What latency takes of the room leaves less for FLOPs.
    const auto [first_left, last_left] = reachableWidths(widths.bound);
    widths.first = std::max(first, first_left);
    widths.last = std::min(last, last_left);
    return widths.first < widths.last ? std::optional(widths) : std::nullopt;
  }

  // The wider the experts, the fewer of them meet the budgets; latency grows with both.
  bool boundLatency(Shape &shape, Widths &widths) const {
    const int64_t narrowest = context.expert_widths[widths.first];
    const int64_t widest = context.expert_widths[widths.last - 1];
    const Wide fewest = experts.reachable(shape, widths.bound, pairAt(widths.last - 1)).first;
    const Wide most = experts.reachable(shape, widths.bound, pairAt(widths.first)).last;
    if (fewest > most) {
      return false;
    }
    shape.expert_hidden_size = narrowest;
    const int64_t low = experts.predicted(shape, static_cast<int64_t>(fewest));
    shape.expert_hidden_size = widest;
    const int64_t high = experts.predicted(shape, static_cast<int64_t>(most));
    const double least = std::fabs(experts.leastLatency(low, high));
    // A little less, so that a partial sum never is above the whole.
    const double weighted = targets.latency.weight * least * (1 - 1e-9);
    widths.bound.sum = unit->bound.sum + weighted;
    widths.bound.worst = std::max(unit->bound.worst, weighted);
    return least <= targets.latency.tolerance;
  }

  void visitWidths(Shape &shape, const Widths &widths) {
    if (widths.last - widths.first == 1) {
      visitWidth(shape, widths.bound, widths.first);
      return;
    }
    const size_t middle = (widths.first + widths.last) / 2;
    std::optional<Widths> halves[] = {boundedWidths(shape, widths.bound, widths.first, middle),
                                      boundedWidths(shape, widths.bound, middle, widths.last)};
    if (halves[0] && halves[1] && halves[1]->bound.sum < halves[0]->bound.sum) {
      std::swap(halves[0], halves[1]);
    }
    for (const std::optional<Widths> &half : halves) {
      if (half && !collector.hopeless(half->bound)) {
        visitWidths(shape, *half);
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

  const Context &context;
  const SearchRequest &request;
  const budget::Budget &target;
  const Targets &targets;
  Collector &collector;
  ExpertSearch experts;
  std::vector<BudgetLines> lines_of_loops;
  const Unit *unit = nullptr;
  BudgetLines *lines = nullptr; // of the unit's loop
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
