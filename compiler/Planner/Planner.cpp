#include "compiler/Planner/Planner.h"

#include "compiler/Planner/Infeasible.h"

#include <fmt/format.h>
#include <memory>

namespace smelt::planner {
namespace {

using budget::Budget;

PlanResult refuse(smelt_status status, std::string error) {
  return {.plan = std::nullopt, .status = status, .error = std::move(error)};
}

// Every way to loop the baseline that the options ask for.
struct Loops {
  std::vector<std::unique_ptr<LoopedModel>> models; // which `loops` point to
  std::vector<Loop> loops;
  std::vector<LoopPlacement> placements;
  std::string error;
};

template <typename T> std::vector<T> orElse(const std::vector<T> &values, T value) {
  return values.empty() ? std::vector<T>{value} : values;
}

void addLoop(Loops &loops, const Baseline &baseline, int64_t layers, double span, int64_t visits,
             const PlanOptions &options) {
  LoopedModel looped = loopedModel(baseline, layers, span, visits);
  if (!looped.architecture) {
    loops.error = looped.error;
    return;
  }
  loops.models.push_back(std::make_unique<LoopedModel>(std::move(looped)));
  loops.loops.push_back({.looped = &*loops.models.back()->architecture,
                         .visits = visits,
                         .depth_ratio = static_cast<double>(layers) /
                                        static_cast<double>(physicalLayers(baseline.architecture)),
                         .kv_choices = kvChoicesFor(baseline, options, visits)});
  loops.placements.push_back(*placeLoop(layers, span));
}

Loops listLoops(const Baseline &baseline, const PlanOptions &options) {
  Loops loops;
  for (const int64_t layers : orElse(options.layers, physicalLayers(baseline.architecture))) {
    for (const double span : orElse(options.spans, options.span)) {
      for (const int64_t visits : orElse(options.visit_counts, options.visits)) {
        addLoop(loops, baseline, layers, span, visits, options);
      }
    }
  }
  return loops;
}

class Matcher {
public:
  // `latency` is of the options, with the baseline's prediction.
  Matcher(const Baseline &baseline, const Loops &loops, const Budget &target, const PlanOptions &options,
          const std::optional<PlanLatency> &latency)
      : baseline(baseline), loops(loops), options(options), request{.baseline = &baseline,
                                                                    .loops = loops.loops,
                                                                    .target = target,
                                                                    .attended = options.attended,
                                                                    .lattice = latticeFor(baseline, options),
                                                                    .targets = options.effectiveTargets(),
                                                                    .keep = options.runners_up + 1,
                                                                    .threads = options.threads,
                                                                    .progress = options.progress},
        latency(latency), matched(matchedBudgets(request.targets.askForLatency())) {
    if (request.targets.askForLatency()) {
      request.latency = &latency->request;
      request.target_picoseconds = latency->baseline_picoseconds;
    }
  }

  PlanResult run() {
    const std::vector<RankedShape> ranked = search(Goal::best, request.targets, options.runners_up + 1);
    const std::vector<Candidate> best = candidatesOf(ranked);
    if (best.empty()) {
      return infeasible();
    }
    Plan plan{.placement = best.front().placement,
              .attended = options.attended,
              .baseline = request.target,
              .pick = best.front(),
              .runners_up = {best.begin() + 1, best.end()},
              .targets = request.targets,
              .latency = latency};
    if (options.front) {
      request.known = ranked;
      plan.front = find(Goal::front, request.targets, 1);
    }
    return {.plan = std::move(plan), .status = SMELT_ok, .error = ""};
  }

private:
  std::vector<RankedShape> search(Goal goal, const Targets &targets, size_t keep) {
    request.goal = goal;
    request.targets = targets;
    request.keep = keep;
    return searchShapes(request);
  }

  std::vector<Candidate> find(Goal goal, const Targets &targets, size_t keep) {
    return candidatesOf(search(goal, targets, keep));
  }

  std::vector<Candidate> candidatesOf(const std::vector<RankedShape> &points) const {
    std::vector<Candidate> candidates;
    for (const RankedShape &ranked : points) {
      candidates.push_back(candidateOf(ranked));
    }
    return candidates;
  }

  Candidate candidateOf(const RankedShape &ranked) const {
    const LoopedModel &looped = *loops.models[ranked.loop];
    Candidate candidate{.architecture = applyShape(baseline, *looped.architecture, ranked.shape),
                        .shape = ranked.shape,
                        .residuals = ranked.residuals,
                        .shape_distance = ranked.shape_distance,
                        .score = ranked.score,
                        .fit = ranked.fit,
                        .placement = loops.placements[ranked.loop],
                        .visits = loops.loops[ranked.loop].visits};
    candidate.architecture.name = options.name.empty() ? baseline.name() + "-looped" : options.name;
    if (looped.spec) {
      candidate.spec = applyShape(*looped.spec, ranked.shape);
      candidate.spec->name = candidate.architecture.name;
    }
    candidate.budget =
        budget::computeBudget(candidate.architecture, options.attended).budget.value_or(Budget{});
    if (latency) {
      candidate.picoseconds = predictedPicoseconds(candidate.architecture, latency->request);
      candidate.residuals.latency = latencyResidual(candidate.picoseconds, *latency);
    }
    return candidate;
  }

  PlanResult infeasible() {
    constexpr size_t kNearest = 3;
    const Targets wanted = request.targets;
    Targets anything = wanted;
    for (const MatchedBudget &budget : matched) {
      (anything.*budget.target).tolerance = kAnyDifference;
    }
    PlanResult result = refuse(SMELT_infeasible, "");
    result.nearest_points = find(Goal::nearest, anything, kNearest);
    if (!result.nearest_points.empty()) {
      result.nearest = result.nearest_points.front();
    }
    for (const MatchedBudget &budget : matched) {
      Targets without = wanted;
      for (const MatchedBudget &other : matched) {
        (without.*other.target).weight = 0;
      }
      without.*budget.target = {.tolerance = kAnyDifference, .weight = 1};
      const std::vector<Candidate> closest = find(Goal::nearest, without, 1);
      result.reach.push_back({budget.key, closest.empty() ? std::nullopt : std::optional(closest.front())});
    }
    result.error = infeasibleText(result, request.target, wanted, latency);
    return result;
  }

  const Baseline &baseline;
  const Loops &loops;
  const PlanOptions &options;
  SearchRequest request;
  const std::optional<PlanLatency> &latency;
  const std::span<const MatchedBudget> matched;
};

} // namespace

double latencyResidual(int64_t picoseconds, const PlanLatency &latency) {
  return static_cast<double>(picoseconds - latency.baseline_picoseconds) /
         static_cast<double>(latency.baseline_picoseconds);
}

PlanResult plan(const Baseline &baseline, const PlanOptions &options) {
  if (const std::string error = checkOptions(options); !error.empty()) {
    return refuse(SMELT_usage, error);
  }
  if (const std::string error = checkBaseline(baseline); !error.empty()) {
    return refuse(SMELT_unsupported, error);
  }
  const Loops loops = listLoops(baseline, options);
  if (!loops.error.empty()) {
    return refuse(SMELT_unsupported, loops.error);
  }
  if (const std::string error = checkLattice(baseline, options); !error.empty()) {
    return refuse(SMELT_usage, error);
  }
  const budget::BudgetResult target = budget::computeBudget(baseline.architecture, options.attended);
  if (!target) {
    return refuse(SMELT_usage, target.error);
  }
  std::optional<PlanLatency> latency;
  if (options.latency) {
    latency = {*options.latency, predictedPicoseconds(baseline.architecture, *options.latency)};
    if (latency->baseline_picoseconds == INT64_MAX || latency->baseline_picoseconds == 0) {
      return refuse(SMELT_usage,
                    fmt::format("the predicted {} takes no time that fits in 64 bits of picoseconds",
                                options.latency->step.words()));
    }
  }
  return Matcher(baseline, loops, *target.budget, options, latency).run();
}

} // namespace smelt::planner
