#include "compiler/Law/Bootstrap.h"

#include "compiler/Law/ParallelFor.h"

#include <limits>
#include <map>
#include <numeric>
#include <random>

namespace smelt::law {

namespace {

// Few cells make useless resamples common, and with too few there is nothing else.
constexpr size_t attempts_per_draw = 100;

// A number from 0 to count - 1. The standard distributions differ between libraries; this one does not.
size_t below(std::mt19937_64 &random, size_t count) {
  return static_cast<size_t>((static_cast<unsigned __int128>(random()) * count) >> 64);
}

std::vector<double> resample(std::mt19937_64 &random, const Cells &cells) {
  std::vector<double> times(cells.count, 0);
  for (size_t i = 0; i < cells.count; ++i) {
    ++times[below(random, cells.count)];
  }
  std::vector<double> weights(cells.of_run.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = times[cells.of_run[i]];
  }
  return weights;
}

struct Draw {
  Coefficients coefficients;
  size_t attempts = 0; // 0: none of them could determine the coefficients
};

} // namespace

Cells findCells(std::span<const Run> runs) {
  std::map<std::string, size_t> indices;
  Cells cells;
  for (const Run &run : runs) {
    cells.of_run.push_back(indices.emplace(run.cell, indices.size()).first->second);
  }
  cells.count = indices.size();
  return cells;
}

Bootstrap bootstrapCells(std::span<const Run> runs, const Cells &cells, const FitObjective &objective,
                         const Bounds &bounds, std::span<const Unknowns> starts, const FitOptions &options) {
  std::vector<Draw> draws(options.bootstrap);
  parallelFor(draws.size(), options.threads, [&](size_t index) {
    std::seed_seq sequence{static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32),
                           static_cast<uint32_t>(index)};
    std::mt19937_64 random(sequence);
    for (size_t attempt = 1; attempt <= attempts_per_draw; ++attempt) {
      std::vector<double> weights = resample(random, cells);
      if (!designProblems(runs, weights, options.fixed).empty()) {
        continue;
      }
      Minimum best{{}, std::numeric_limits<double>::infinity()};
      for (const Unknowns &start : starts) {
        Minimum found = minimize(objective, weights, bounds, start);
        if (found.value < best.value) {
          best = found;
        }
      }
      draws[index] = {objective.coefficients(best.at), attempt};
      return;
    }
  });

  Bootstrap bootstrap;
  for (const Draw &draw : draws) {
    if (draw.attempts == 0) {
      bootstrap.draws.clear();
      bootstrap.error = "the cells are too few or too alike for a bootstrap";
      return bootstrap;
    }
    bootstrap.draws.push_back(draw.coefficients);
    bootstrap.redrawn += draw.attempts - 1;
  }
  return bootstrap;
}

} // namespace smelt::law
