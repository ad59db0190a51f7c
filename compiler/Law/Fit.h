// Fits a scaling law to training runs: Huber loss on log loss, minimised from a grid of starts, with
// intervals from a bootstrap over cells. docs/laws.md describes the method.
#pragma once

#include "compiler/Law/Design.h"
#include "compiler/Law/Runs.h"
#include "compiler/Law/ScalingLaw.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace smelt::law {

struct FitOptions {
  std::string name = "fit"; // of the law
  double delta = 1e-3;      // residuals of log loss beyond it count linearly
  size_t bootstrap = 2000;  // resamples of the cells; 0: no intervals
  double level = 0.95;      // of the intervals
  uint64_t seed = 1;
  unsigned threads = 0; // 0: one a core
  FixedCoefficients fixed = {};
};

struct Interval {
  double low = 0;
  double high = 0;
};

struct Fit {
  ScalingLaw law; // its ranges are those of the runs
  double objective = 0;
  double rmse = 0;               // of predicted less measured loss, nats
  std::vector<double> predicted; // loss of each run

  size_t cells = 0;
  size_t starts = 0;
  size_t starts_at_best = 0; // those that ended within 1e-6 of the best objective

  std::vector<Coefficients> draws; // of the bootstrap
  size_t redrawn = 0;              // resamples that could not determine the coefficients and were drawn again
  double level = 0;
  std::vector<std::string> notes; // about the result, for the reader

  // Of a coefficient over the draws, which must not be none.
  Interval interval(double Coefficients::*coefficient) const;
  // Of the frontier exponent γ.
  Interval frontierInterval() const;
};

struct FitResult {
  std::optional<Fit> fit;
  std::vector<std::string> problems; // why there is none, all that were found

  explicit operator bool() const { return fit.has_value(); }
};

// The same result for the same arguments, whatever the number of threads.
FitResult fitLaw(std::span<const Run> runs, const FitOptions &options = {});

} // namespace smelt::law
