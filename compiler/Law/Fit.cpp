#include "compiler/Law/Fit.h"

#include "compiler/Law/Bootstrap.h"
#include "compiler/Law/Minimize.h"
#include "compiler/Law/ParallelFor.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace smelt::law {

namespace {

constexpr size_t coefficient_count = 6;
constexpr size_t runs_per_coefficient = 2;
constexpr size_t fewest_cells = 4;

// Exponents of published laws are from 0.1 to 0.8.
constexpr double smallest_exponent = 1e-3;
constexpr double largest_exponent = 4;

Bounds boundsFor(std::span<const Run> runs, const FixedCoefficients &fixed) {
  auto [low, high] = std::minmax_element(runs.begin(), runs.end(),
                                         [](const Run &x, const Run &y) { return x.loss < y.loss; });
  double lowest = std::log(low->loss);
  double highest = std::log(high->loss);
  Bounds bounds;
  auto set = [&](Unknown unknown, double from, double to) {
    bounds.low[unknown] = from;
    bounds.high[unknown] = to;
  };
  auto set_exponent = [&](Unknown unknown, const std::optional<double> &given, double from) {
    set(unknown, given.value_or(from), given.value_or(largest_exponent));
  };
  double floor = fixed.floor ? std::log(*fixed.floor) : 0;
  set(log_floor, fixed.floor ? floor : lowest - std::log(1e6), fixed.floor ? floor : lowest);
  set(log_model_term, lowest - std::log(1e8), highest + 1);
  set(log_data_term, lowest - std::log(1e8), highest + 1);
  set_exponent(model_exponent, fixed.model_exponent, smallest_exponent);
  set_exponent(sparsity_exponent, fixed.sparsity_exponent, -largest_exponent);
  set_exponent(data_exponent, fixed.data_exponent, smallest_exponent);
  return bounds;
}

// The floor takes a part of the lowest loss, and the two terms share the rest.
std::vector<Unknowns> startGrid(std::span<const Run> runs) {
  double lowest = std::min_element(runs.begin(), runs.end(), [](const Run &x, const Run &y) {
                    return x.loss < y.loss;
                  })->loss;
  std::vector<Unknowns> starts;
  for (double floor_part : {0.3, 0.6, 0.9}) {
    for (double model_part : {0.3, 0.7}) {
      for (double a : {0.2, 0.5, 1.0}) {
        for (double c : {0.2, 0.5, 1.0}) {
          for (double b : {0.0, 0.2}) {
            double rest = (1 - floor_part) * lowest;
            starts.push_back({std::log(floor_part * lowest), std::log(model_part * rest),
                              std::log((1 - model_part) * rest), a, b, c});
          }
        }
      }
    }
  }
  return starts;
}

Range rangeOf(std::span<const Run> runs, double (*value)(const Run &)) {
  Range range{value(runs.front()), value(runs.front())};
  for (const Run &run : runs) {
    range.low = std::min(range.low, value(run));
    range.high = std::max(range.high, value(run));
  }
  return range;
}

Validity validityOf(std::span<const Run> runs) {
  return {.training_flops = rangeOf(runs, [](const Run &run) { return run.trainingFlops(); }),
          .sparsity = rangeOf(runs, [](const Run &run) { return run.sparsity; }),
          .training_flops_per_token =
              rangeOf(runs, [](const Run &run) { return run.training_flops_per_token; }),
          .tokens = rangeOf(runs, [](const Run &run) { return run.tokens; })};
}

// A coefficient that would be beyond a bound was not found, it was stopped.
std::vector<std::string> boundNotes(const Unknowns &at, const Bounds &bounds) {
  constexpr const char *names[unknown_count] = {"E", "A·(1−S)^b/F^a", "K/D^c", "a", "b", "c"};
  std::vector<std::string> notes;
  for (size_t i = 0; i < unknown_count; ++i) {
    bool fixed = bounds.low[i] == bounds.high[i];
    if (!fixed && (at[i] == bounds.low[i] || at[i] == bounds.high[i])) {
      notes.push_back(fmt::format("{} ended at its {} bound: the runs do not determine it", names[i],
                                  at[i] == bounds.low[i] ? "lower" : "upper"));
    }
  }
  return notes;
}

Interval percentiles(std::vector<double> values, double level) {
  std::sort(values.begin(), values.end());
  auto quantile = [&](double part) {
    double place = part * static_cast<double>(values.size() - 1);
    size_t below = static_cast<size_t>(place);
    size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  return {quantile((1 - level) / 2), quantile((1 + level) / 2)};
}

class Fitter {
public:
  Fitter(std::span<const Run> runs, const FitOptions &options)
      : runs(runs), options(options), weights(runs.size(), 1.0), cells(findCells(runs)) {}

  FitResult run() {
    FitResult result;
    result.problems = inputProblems();
    if (!result.problems.empty()) {
      return result;
    }
    FitObjective objective(runs, options.delta);
    Bounds bounds = boundsFor(runs, options.fixed);
    std::vector<Minimum> minima = searchFromGrid(objective, bounds);
    const Minimum &best = *std::min_element(
        minima.begin(), minima.end(), [](const Minimum &x, const Minimum &y) { return x.value < y.value; });
    result.problems = fittedProblems(objective, best.at, options.fixed);
    if (!result.problems.empty()) {
      return result;
    }
    Fit fit = describe(objective, best, minima);
    fit.notes = boundNotes(best.at, bounds);
    if (options.bootstrap > 0) {
      // A draw moves the minimum a little; the middle of the grid is for those that move it to another basin.
      std::vector<Unknowns> grid = startGrid(runs);
      std::vector<Unknowns> starts = {best.at, grid[grid.size() / 2]};
      Bootstrap bootstrap = bootstrapCells(runs, cells, objective, bounds, starts, options);
      if (!bootstrap.error.empty()) {
        result.problems.push_back(bootstrap.error);
        return result;
      }
      fit.draws = std::move(bootstrap.draws);
      fit.redrawn = bootstrap.redrawn;
    }
    result.fit = std::move(fit);
    return result;
  }

private:
  std::vector<std::string> inputProblems() const {
    std::vector<std::string> problems;
    size_t free = coefficient_count - options.fixed.count();
    size_t needed = runs_per_coefficient * free;
    if (runs.size() < needed) {
      problems.push_back(fmt::format("{} {} too few for {} coefficients: at least {} are needed", runs.size(),
                                     runs.size() == 1 ? "run is" : "runs are", free, needed));
    }
    if (options.bootstrap > 0 && cells.count < fewest_cells) {
      problems.push_back(fmt::format("{} {} too few for intervals: at least {} are needed", cells.count,
                                     cells.count == 1 ? "cell is" : "cells are", fewest_cells));
    }
    std::vector<std::string> design = designProblems(runs, weights, options.fixed);
    problems.insert(problems.end(), design.begin(), design.end());
    return problems;
  }

  std::vector<Minimum> searchFromGrid(const FitObjective &objective, const Bounds &bounds) const {
    std::vector<Unknowns> starts = startGrid(runs);
    std::vector<Minimum> minima(starts.size());
    parallelFor(starts.size(), options.threads,
                [&](size_t i) { minima[i] = minimize(objective, weights, bounds, starts[i]); });
    return minima;
  }

  Fit describe(const FitObjective &objective, const Minimum &best, const std::vector<Minimum> &minima) const {
    Fit fit;
    fit.law.name = options.name;
    fit.law.description = fmt::format("fitted to {} runs in {} cells", runs.size(), cells.count);
    fit.law.coefficients = objective.coefficients(best.at);
    fit.law.validity = validityOf(runs);
    fit.objective = best.value;
    fit.cells = cells.count;
    fit.level = options.level;
    fit.starts = minima.size();
    double close = fit.objective * (1 + 1e-6) + 1e-12;
    fit.starts_at_best = static_cast<size_t>(
        std::count_if(minima.begin(), minima.end(), [&](const Minimum &x) { return x.value <= close; }));
    double squares = 0;
    for (const Run &run : runs) {
      fit.predicted.push_back(loss(fit.law, run));
      squares += std::pow(fit.predicted.back() - run.loss, 2);
    }
    fit.rmse = std::sqrt(squares / static_cast<double>(runs.size()));
    return fit;
  }

  std::span<const Run> runs;
  const FitOptions &options;
  std::vector<double> weights;
  Cells cells;
};

} // namespace

Interval Fit::interval(double Coefficients::*coefficient) const {
  std::vector<double> values;
  for (const Coefficients &draw : draws) {
    values.push_back(draw.*coefficient);
  }
  return percentiles(std::move(values), level);
}

Interval Fit::frontierInterval() const {
  std::vector<double> values;
  for (const Coefficients &draw : draws) {
    values.push_back(frontierExponent(draw));
  }
  return percentiles(std::move(values), level);
}

FitResult fitLaw(std::span<const Run> runs, const FitOptions &options) { return Fitter(runs, options).run(); }

} // namespace smelt::law
