#include "compiler/Planner/Explain.h"

#include "compiler/Planner/Infeasible.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::planner {
namespace {

using budget::Budget;

double relative(int64_t value, int64_t target) {
  return target == 0 ? 0 : static_cast<double>(value - target) / static_cast<double>(target);
}

Residuals residualsOf(const budget::Architecture &model, const Budget &target, budget::Attended attended,
                      const std::optional<PlanLatency> &latency) {
  const Budget budget = budget::computeBudget(model, attended).budget.value_or(Budget{});
  Residuals residuals;
  for (const MatchedBudget &matched : matchedBudgets(false)) {
    residuals.*matched.residual = relative(budget.*matched.value, target.*matched.value);
  }
  if (latency) {
    residuals.latency = latencyResidual(predictedPicoseconds(model, latency->request), *latency);
  }
  return residuals;
}

// A group of fields that change together.
struct Knob {
  const char *name;
  std::vector<int64_t Shape::*> fields;
};

std::string valuesText(const Shape &shape, const Knob &knob) {
  std::string text;
  for (int64_t Shape::*field : knob.fields) {
    const int64_t value = shape.*field > 0 ? shape.*field : shape.*knob.fields.front();
    text += (text.empty() ? "" : "/") + std::to_string(value);
  }
  return text;
}

class Steps {
public:
  Steps(const Baseline &baseline, const Candidate &candidate, budget::Attended attended,
        const std::optional<PlanLatency> &latency)
      : baseline(baseline), looped(candidate.architecture), attended(attended), latency(latency),
        target(budget::computeBudget(baseline.architecture, attended).budget.value_or(Budget{})),
        from(shapeOf(baseline.architecture)), to(candidate.shape) {}

  std::vector<KnobStep> list(const Candidate &candidate) {
    add("loop", loopText(candidate));
    change({"kv_heads", to.looped_kv_heads > 0 ? std::vector{&Shape::kv_heads, &Shape::looped_kv_heads}
                                               : std::vector{&Shape::kv_heads}});
    change({"kv_rank", to.looped_kv_rank > 0 ? std::vector{&Shape::kv_rank, &Shape::looped_kv_rank}
                                             : std::vector{&Shape::kv_rank}});
    for (const Knob &knob :
         {Knob{"head_dim", {&Shape::head_dim}}, Knob{"query_heads", {&Shape::query_heads}},
          Knob{"top_k", {&Shape::top_k}}, Knob{"hidden_size", {&Shape::hidden_size}},
          Knob{"expert_hidden_size", {&Shape::expert_hidden_size}}, Knob{"experts", {&Shape::experts}}}) {
      change(knob);
    }
    return std::move(steps);
  }

private:
  std::string loopText(const Candidate &candidate) const {
    const LoopPlacement &at = candidate.placement;
    std::string text = fmt::format("{} of {} layers run {} times", at.looped,
                                   at.prelude + at.looped + at.coda, candidate.visits);
    const int64_t before_loop = physicalLayers(baseline.architecture);
    if (physicalLayers(looped) != before_loop) {
      text += fmt::format("; {} layers before", before_loop);
    }
    return text;
  }

  void change(const Knob &knob) {
    Shape next = from;
    for (int64_t Shape::*field : knob.fields) {
      next.*field = to.*field;
    }
    if (next != from) {
      const std::string text =
          fmt::format("{} to {}", valuesText(from, Knob{"", {knob.fields.front()}}), valuesText(to, knob));
      from = next;
      add(knob.name, text);
    }
  }

  void add(std::string knob, std::string text) {
    const Residuals now = residualsOf(applyShape(baseline, looped, from), target, attended, latency);
    Residuals paid;
    for (const MatchedBudget &matched : matchedBudgets(true)) {
      paid.*matched.residual = now.*matched.residual - before.*matched.residual;
    }
    steps.push_back({std::move(knob), std::move(text), now, paid});
    before = now;
  }

  const Baseline &baseline;
  const budget::Architecture &looped;
  const budget::Attended attended;
  const std::optional<PlanLatency> &latency;
  const Budget target;
  Shape from;
  const Shape to;
  Residuals before;
  std::vector<KnobStep> steps;
};

// The budget with the largest weighted difference.
const MatchedBudget &worstBudget(const Candidate &candidate, const Targets &targets) {
  const std::span<const MatchedBudget> matched = matchedBudgets(targets.askForLatency());
  return *std::max_element(matched.begin(), matched.end(),
                           [&](const MatchedBudget &a, const MatchedBudget &b) {
                             const auto size = [&](const MatchedBudget &m) {
                               return (targets.*m.target).weight * std::fabs(candidate.residuals.*m.residual);
                             };
                             return size(a) < size(b);
                           });
}

std::string percent(double fraction) { return fmt::format("{:.2f} %", 100 * std::fabs(fraction)); }

std::string pointText(const Candidate &candidate, const Targets &targets) {
  return fmt::format("worst difference {} ({}), shape distance {:.4f}, hardware misfit {}; {}",
                     percent(candidate.residuals.worst(targets)), worstBudget(candidate, targets).key,
                     candidate.shape_distance, candidate.fit.misfit(), shapeText(candidate.shape, false));
}

// "The closest match is the pick." or what it is.
std::string alternative(std::string_view what, const Candidate &other, const Plan &plan) {
  if (other.architecture == plan.pick.architecture) {
    return fmt::format("The {} is the pick itself.", what);
  }
  return fmt::format("The {}: {}.", what, pointText(other, plan.targets));
}

} // namespace

std::vector<KnobStep> knobSteps(const Baseline &baseline, const Candidate &candidate,
                                budget::Attended attended, const std::optional<PlanLatency> &latency) {
  return Steps(baseline, candidate, attended, latency).list(candidate);
}

std::vector<std::string> pickReasons(const Plan &plan) {
  std::vector<std::string> reasons{
      fmt::format("The pick has the lowest score, shape distance + {} x the sum of the differences: {:.3f} = "
                  "{:.3f} + {} x {:.5f}.",
                  kResidualWeight, plan.pick.score, plan.pick.shape_distance, kResidualWeight,
                  plan.pick.residuals.sum(plan.targets)),
      fmt::format("Pick: {}.", pointText(plan.pick, plan.targets))};
  if (!plan.runners_up.empty()) {
    const Candidate &next = plan.runners_up.front();
    reasons.push_back(
        fmt::format("The next best score is {:.3f}: {}.", next.score, pointText(next, plan.targets)));
  }
  if (plan.front.empty()) {
    return reasons;
  }
  const auto least = [&](auto key) {
    return *std::min_element(plan.front.begin(), plan.front.end(),
                             [&](const Candidate &a, const Candidate &b) {
                               return std::pair(key(a), a.score) < std::pair(key(b), b.score);
                             });
  };
  reasons.push_back(alternative("closest match of the front", plan.front.front(), plan));
  reasons.push_back(alternative("match most like the baseline",
                                least([](const Candidate &c) { return c.shape_distance; }), plan));
  reasons.push_back(alternative("match that fits hardware best",
                                least([](const Candidate &c) { return c.fit.misfit(); }), plan));
  return reasons;
}

const Candidate *closerMatch(const Plan &plan, double worst, double distance) {
  const auto found = std::find_if(plan.front.begin(), plan.front.end(), [&](const Candidate &candidate) {
    return candidate.shape_distance <= distance && candidate.residuals.worst(plan.targets) < worst;
  });
  return found == plan.front.end() ? nullptr : &*found;
}

std::string whatBlocks(const Plan &plan, double worst, double distance) {
  if (plan.front.empty() || closerMatch(plan, worst, distance)) {
    return "";
  }
  std::string text =
      fmt::format("no match within a shape distance of {:.4f} is closer than {}", distance, percent(worst));
  // The front goes from close to far: the first within the distance is the closest there.
  for (const Candidate &candidate : plan.front) {
    if (candidate.shape_distance <= distance) {
      const MatchedBudget &blocking = worstBudget(candidate, plan.targets);
      text += fmt::format(": {} stops at {:+.2f} % there ({})", blocking.key,
                          100 * candidate.residuals.*blocking.residual, shapeText(candidate.shape, false));
      break;
    }
  }
  const Candidate *next = nullptr;
  for (const Candidate &candidate : plan.front) {
    if (candidate.residuals.worst(plan.targets) < worst &&
        (!next || candidate.shape_distance < next->shape_distance)) {
      next = &candidate;
    }
  }
  return text + (next ? fmt::format("; {} takes a distance of {:.4f} ({})",
                                    percent(next->residuals.worst(plan.targets)), next->shape_distance,
                                    shapeText(next->shape, false))
                      : "; nor is any other");
}

std::string comparedWith(const Baseline &baseline, const Plan &plan, const Baseline &other) {
  int64_t visits = 1;
  for (const budget::LayerGroup &group : other.architecture.groups) {
    visits = std::max(visits, group.visits);
  }
  const Shape shape = other.spec ? shapeOf(*other.spec) : shapeOf(other.architecture);
  const double depth_ratio = static_cast<double>(physicalLayers(other.architecture)) /
                             static_cast<double>(physicalLayers(baseline.architecture));
  const double distance = shapeDistance(shape, shapeOf(baseline.architecture), visits, depth_ratio);
  const double worst =
      residualsOf(other.architecture, plan.baseline, plan.attended, plan.latency).worst(plan.targets);
  const std::string standing = fmt::format("{} has a worst difference of {} at a shape distance of {:.4f}",
                                           other.name(), percent(worst), distance);
  if (const Candidate *closer = closerMatch(plan, worst, distance)) {
    return fmt::format("{}; closer and no less like the baseline: {}", standing,
                       pointText(*closer, plan.targets));
  }
  return fmt::format("{}; {}", standing, whatBlocks(plan, worst, distance));
}

} // namespace smelt::planner
