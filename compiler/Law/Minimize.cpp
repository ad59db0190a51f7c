#include "compiler/Law/Minimize.h"

#include <algorithm>
#include <memory>
#include <new>
#include <nlopt.h>

namespace smelt::law {

namespace {

constexpr double relative_tolerance = 1e-12;
constexpr int evaluations_per_search = 2000;
constexpr int searches = 10;
// More than the unknowns: the kinks change the curvature from step to step.
constexpr unsigned remembered_steps = 20;

struct Problem {
  const FitObjective &objective;
  std::span<const double> weights;
};

double evaluate(unsigned, const double *at, double *gradient, void *data) {
  const Problem &problem = *static_cast<Problem *>(data);
  Unknowns unknowns;
  Unknowns slope;
  std::copy_n(at, unknown_count, unknowns.begin());
  double value = problem.objective.evaluate(unknowns, problem.weights, slope);
  if (gradient) {
    std::copy(slope.begin(), slope.end(), gradient);
  }
  return value;
}

using Optimizer = std::unique_ptr<nlopt_opt_s, decltype(&nlopt_destroy)>;

Optimizer makeOptimizer(Problem &problem, const Bounds &bounds) {
  Optimizer optimizer(nlopt_create(NLOPT_LD_LBFGS, unknown_count), nlopt_destroy);
  if (!optimizer) {
    throw std::bad_alloc();
  }
  nlopt_set_lower_bounds(optimizer.get(), bounds.low.data());
  nlopt_set_upper_bounds(optimizer.get(), bounds.high.data());
  nlopt_set_min_objective(optimizer.get(), evaluate, &problem);
  nlopt_set_ftol_rel(optimizer.get(), relative_tolerance);
  nlopt_set_maxeval(optimizer.get(), evaluations_per_search);
  nlopt_set_vector_storage(optimizer.get(), remembered_steps);
  return optimizer;
}

} // namespace

Minimum minimize(const FitObjective &objective, std::span<const double> weights, const Bounds &bounds,
                 Unknowns start) {
  for (size_t i = 0; i < unknown_count; ++i) {
    start[i] = std::clamp(start[i], bounds.low[i], bounds.high[i]);
  }
  Problem problem{objective, weights};
  Unknowns slope;
  Minimum best{start, objective.evaluate(start, weights, slope)};
  for (int i = 0; i < searches; ++i) {
    Optimizer optimizer = makeOptimizer(problem, bounds);
    Minimum found = best;
    // Its status is not looked at: a search that starts at a minimum "fails" for want of a step down.
    nlopt_optimize(optimizer.get(), found.at.data(), &found.value);
    found.value = objective.evaluate(found.at, weights, slope);
    bool better = found.value < best.value * (1 - 1e-9);
    if (found.value < best.value) {
      best = found;
    }
    if (!better) {
      break;
    }
  }
  return best;
}

} // namespace smelt::law
