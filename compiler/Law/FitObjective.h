// What a fit minimises: the Huber loss of the residuals of log loss.
#pragma once

#include "compiler/Law/Runs.h"

#include <array>
#include <span>
#include <vector>

namespace smelt::law {

// The law in the coordinates of the optimiser. The terms are logarithms of their values at the geometric mean
// of the runs, not at F = D = 1, twenty decades away, where a change of an exponent moves them most.
enum Unknown { log_floor, log_model_term, log_data_term, model_exponent, sparsity_exponent, data_exponent };
inline constexpr size_t unknown_count = 6;
using Unknowns = std::array<double, unknown_count>;

class FitObjective {
public:
  // delta: residuals of log loss beyond it count linearly.
  FitObjective(std::span<const Run> runs, double delta);

  size_t size() const { return points.size(); }

  // Σ weight · huber(log predicted − log measured) / delta², so that a run at delta adds 0.5; the weights are
  // one per run, e.g. how often a bootstrap drew it. Writes the gradient.
  double evaluate(const Unknowns &at, std::span<const double> weights, Unknowns &gradient) const;

  // log predicted − log measured, and its derivatives by each unknown.
  double residual(const Unknowns &at, size_t run, Unknowns &gradient) const;

  Coefficients coefficients(const Unknowns &at) const;

private:
  struct Point {
    double log_flops; // of F, 1 − S and D: less the mean over the runs
    double log_dense;
    double log_tokens;
    double log_loss;
  };

  std::vector<Point> points;
  double mean_log_flops = 0;
  double mean_log_dense = 0;
  double mean_log_tokens = 0;
  double delta;
};

} // namespace smelt::law
