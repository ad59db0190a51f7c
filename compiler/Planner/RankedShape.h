// A point of the lattice with everything it is judged by.
#pragma once

#include "compiler/Planner/HardwareFit.h"
#include "compiler/Planner/Shape.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace smelt::planner {

// What a request asks of one budget.
struct Target {
  double tolerance = 0.05; // largest relative difference of a match; infinite for any
  double weight = 1.0;     // of its difference in "worst" and "sum"; 0 leaves the budget out of both
};

inline constexpr double kAnyDifference = std::numeric_limits<double>::infinity();

struct Targets {
  Target training_flops;
  Target non_embedding_params;
  Target kv_cache;
  Target latency = {.tolerance = kAnyDifference, .weight = 0}; // left out unless asked for

  bool askForLatency() const { return latency.weight > 0 || latency.tolerance < kAnyDifference; }
  static Targets within(double tolerance) { return {{tolerance}, {tolerance}, {tolerance}}; }
};

// Signed relative differences from the baseline: 0.01 is one per cent more.
struct Residuals {
  double training_flops = 0;
  double non_embedding_params = 0;
  double kv_cache = 0;
  double latency = 0; // predicted; 0 when there is no device

  // Largest and sum of the absolute values.
  double worst() const;
  double sum() const;
  // The same with every budget at its weight.
  double worst(const Targets &targets) const;
  double sum(const Targets &targets) const;
  bool within(const Targets &targets) const;
};

struct RankedShape {
  Shape shape;
  size_t loop = 0; // index into SearchRequest::loops
  Residuals residuals = {};
  double worst = 0; // weighted, as is sum
  double sum = 0;
  double shape_distance = 0;
  double score = 0;
  HardwareFit fit = {};

  // By score; equal scores by loop and shape, so that the order never depends on the search.
  bool operator<(const RankedShape &other) const;
};

// The score is shape_distance + kResidualWeight x the sum of the residuals: 0.1 % of a budget weighs as much
// as a change of shape by a fifth.
inline constexpr double kResidualWeight = 200.0;

// Differences on the Pareto front that count as equal: 0.01 % of a budget, 0.0001 of distance. Without them
// the front fills with points that only rounding tells apart.
inline constexpr double kResidualStep = 1e-4;
inline constexpr double kDistanceStep = 1e-4;

// What the front compares, each in whole steps; lower is better.
struct FrontKey {
  int64_t residual = 0; // worst, rounded up
  int64_t distance = 0; // rounded to the nearest
  int64_t misfit = 0;

  bool operator==(const FrontKey &) const = default;
  // At least as good in all three.
  bool covers(const FrontKey &other) const {
    return residual <= other.residual && distance <= other.distance && misfit <= other.misfit;
  }
};

FrontKey frontKey(double worst, double shape_distance, int64_t misfit);
FrontKey frontKey(const RankedShape &ranked);

} // namespace smelt::planner
