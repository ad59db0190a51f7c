#include "compiler/Planner/Planner.h"

#include "compiler/Planner/Infeasible.h"

#include <fmt/format.h>
#include <memory>

namespace smelt::planner {
namespace {

using budget::Budget;
using spec::ModelSpec;

PlanResult refuse(smelt_status status, std::string error) {
  return {.plan = std::nullopt, .status = status, .error = std::move(error)};
}

// Why the matcher cannot take this baseline, or "".
std::string checkBaseline(const ModelSpec &baseline) {
  bool experts = false;
  for (const spec::Segment &segment : baseline.segments) {
    experts = experts || segment.ffn == spec::FfnKind::moe;
  }
  if (!baseline.moe || !experts) {
    return "the baseline has no [moe]: without experts, parameters and FLOPs cannot be matched apart; start "
           "from an MoE model";
  }
  for (size_t i = 0; i < baseline.segments.size(); ++i) {
    const spec::Attention &attention = baseline.segments[i].attention;
    if (attention.query_heads != baseline.attention.query_heads ||
        attention.kv_heads != baseline.attention.kv_heads ||
        attention.head_dim != baseline.attention.head_dim) {
      return fmt::format(
          "segment {} overrides the heads of [attention]: the matcher starts from one geometry for all "
          "layers; remove the override",
          i + 1);
    }
  }
  return "";
}

// Every way to loop the baseline that the options ask for.
struct Loops {
  std::vector<std::unique_ptr<ModelSpec>> specs; // which `loops` point to
  std::vector<Loop> loops;
  std::vector<LoopPlacement> placements;
  std::string error;
};

template <typename T> std::vector<T> orElse(const std::vector<T> &values, T value) {
  return values.empty() ? std::vector<T>{value} : values;
}

void addLoop(Loops &loops, const ModelSpec &baseline, const ModelSpec &deep, double span, int64_t visits,
             const PlanOptions &options) {
  const LoopedResult looped = loopMiddle(deep, span, visits);
  if (!looped.spec) {
    loops.error = looped.error;
    return;
  }
  loops.specs.push_back(std::make_unique<ModelSpec>(*looped.spec));
  loops.loops.push_back({.looped = loops.specs.back().get(),
                         .visits = visits,
                         .depth_ratio = static_cast<double>(deep.physicalLayers()) /
                                        static_cast<double>(baseline.physicalLayers()),
                         .kv_choices = kvChoicesFor(baseline, options, visits)});
  loops.placements.push_back(*placeLoop(deep.physicalLayers(), span));
}

Loops listLoops(const ModelSpec &baseline, const PlanOptions &options) {
  Loops loops;
  for (const int64_t layers : orElse(options.layers, baseline.physicalLayers())) {
    const LoopedResult deep =
        layers == baseline.physicalLayers() ? LoopedResult{baseline, ""} : withLayers(baseline, layers);
    if (!deep.spec) {
      loops.error = deep.error;
      return loops;
    }
    for (const double span : orElse(options.spans, options.span)) {
      for (const int64_t visits : orElse(options.visit_counts, options.visits)) {
        addLoop(loops, baseline, *deep.spec, span, visits, options);
      }
    }
  }
  return loops;
}

class Matcher {
public:
  Matcher(const ModelSpec &baseline, const Loops &loops, const Budget &target, const PlanOptions &options)
      : loops(loops), options(options), request{.baseline = &baseline,
                                                .loops = loops.loops,
                                                .target = target,
                                                .attended = options.attended,
                                                .lattice = latticeFor(baseline, options),
                                                .targets = options.effectiveTargets(),
                                                .keep = options.runners_up + 1,
                                                .threads = options.threads,
                                                .progress = options.progress} {}

  PlanResult run() {
    const std::vector<Candidate> best = find(Goal::best, request.targets, options.runners_up + 1);
    if (best.empty()) {
      return infeasible();
    }
    Plan plan{.placement = best.front().placement,
              .attended = options.attended,
              .baseline = request.target,
              .pick = best.front(),
              .runners_up = {best.begin() + 1, best.end()},
              .targets = request.targets};
    if (options.front) {
      plan.front = find(Goal::front, request.targets, 1);
    }
    return {.plan = std::move(plan), .status = SMELT_ok, .error = ""};
  }

private:
  std::vector<Candidate> find(Goal goal, const Targets &targets, size_t keep) {
    request.goal = goal;
    request.targets = targets;
    request.keep = keep;
    std::vector<Candidate> candidates;
    for (const RankedShape &ranked : searchShapes(request)) {
      candidates.push_back(candidateOf(ranked));
    }
    return candidates;
  }

  Candidate candidateOf(const RankedShape &ranked) const {
    const ModelSpec &looped = *loops.loops[ranked.loop].looped;
    Candidate candidate{.spec = applyShape(looped, ranked.shape),
                        .residuals = ranked.residuals,
                        .shape_distance = ranked.shape_distance,
                        .score = ranked.score,
                        .fit = ranked.fit,
                        .placement = loops.placements[ranked.loop],
                        .visits = loops.loops[ranked.loop].visits};
    candidate.spec.name = options.name.empty() ? looped.name + "-looped" : options.name;
    candidate.budget = budget::computeBudget(candidate.spec, options.attended).budget.value_or(Budget{});
    return candidate;
  }

  PlanResult infeasible() {
    constexpr size_t kNearest = 3;
    const Targets wanted = request.targets;
    Targets anything = wanted;
    for (const MatchedBudget &matched : matchedBudgets()) {
      (anything.*matched.target).tolerance = kAnyDifference;
    }
    PlanResult result = refuse(SMELT_infeasible, "");
    result.nearest_points = find(Goal::nearest, anything, kNearest);
    if (!result.nearest_points.empty()) {
      result.nearest = result.nearest_points.front();
    }
    for (const MatchedBudget &matched : matchedBudgets()) {
      Targets without = wanted;
      for (const MatchedBudget &other : matchedBudgets()) {
        (without.*other.target).weight = 0;
      }
      without.*matched.target = {.tolerance = kAnyDifference, .weight = 1};
      const std::vector<Candidate> closest = find(Goal::nearest, without, 1);
      result.reach.push_back({matched.key, closest.empty() ? std::nullopt : std::optional(closest.front())});
    }
    result.error = infeasibleText(result, request.target, wanted);
    return result;
  }

  const Loops &loops;
  const PlanOptions &options;
  SearchRequest request;
};

} // namespace

PlanResult plan(const ModelSpec &baseline, const PlanOptions &options) {
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
  const budget::BudgetResult target = budget::computeBudget(baseline, options.attended);
  if (!target) {
    return refuse(SMELT_usage, target.error);
  }
  return Matcher(baseline, loops, *target.budget, options).run();
}

} // namespace smelt::planner
