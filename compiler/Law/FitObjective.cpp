#include "compiler/Law/FitObjective.h"

#include <algorithm>
#include <cmath>

namespace smelt::law {

FitObjective::FitObjective(std::span<const Run> runs, double delta) : delta(delta) {
  for (const Run &run : runs) {
    points.push_back({std::log(run.training_flops_per_token), std::log1p(-run.sparsity), std::log(run.tokens),
                      std::log(run.loss)});
    mean_log_flops += points.back().log_flops;
    mean_log_dense += points.back().log_dense;
    mean_log_tokens += points.back().log_tokens;
  }
  double count = static_cast<double>(points.size());
  mean_log_flops /= count;
  mean_log_dense /= count;
  mean_log_tokens /= count;
  for (Point &point : points) {
    point.log_flops -= mean_log_flops;
    point.log_dense -= mean_log_dense;
    point.log_tokens -= mean_log_tokens;
  }
}

double FitObjective::residual(const Unknowns &at, size_t run, Unknowns &gradient) const {
  const Point &point = points[run];
  double model =
      at[log_model_term] - at[model_exponent] * point.log_flops + at[sparsity_exponent] * point.log_dense;
  double data = at[log_data_term] - at[data_exponent] * point.log_tokens;
  // log(e^floor + e^model + e^data); the largest comes out first, so that wild starts do not overflow.
  double largest = std::max({at[log_floor], model, data});
  double floor_part = std::exp(at[log_floor] - largest);
  double model_part = std::exp(model - largest);
  double data_part = std::exp(data - largest);
  double sum = floor_part + model_part + data_part;
  model_part /= sum;
  data_part /= sum;
  gradient[log_floor] = floor_part / sum;
  gradient[log_model_term] = model_part;
  gradient[log_data_term] = data_part;
  gradient[model_exponent] = -point.log_flops * model_part;
  gradient[sparsity_exponent] = point.log_dense * model_part;
  gradient[data_exponent] = -point.log_tokens * data_part;
  return largest + std::log(sum) - point.log_loss;
}

double FitObjective::evaluate(const Unknowns &at, std::span<const double> weights, Unknowns &gradient) const {
  double total = 0;
  gradient.fill(0);
  for (size_t i = 0; i < points.size(); ++i) {
    if (weights[i] == 0) {
      continue;
    }
    Unknowns slope;
    double scaled = residual(at, i, slope) / delta;
    double size = std::abs(scaled);
    total += weights[i] * (size <= 1 ? scaled * scaled / 2 : size - 0.5);
    double push = weights[i] * std::clamp(scaled, -1.0, 1.0) / delta;
    for (size_t j = 0; j < unknown_count; ++j) {
      gradient[j] += push * slope[j];
    }
  }
  return total;
}

Coefficients FitObjective::coefficients(const Unknowns &at) const {
  return {.floor = std::exp(at[log_floor]),
          .model_scale = std::exp(at[log_model_term] + at[model_exponent] * mean_log_flops -
                                  at[sparsity_exponent] * mean_log_dense),
          .data_scale = std::exp(at[log_data_term] + at[data_exponent] * mean_log_tokens),
          .model_exponent = at[model_exponent],
          .sparsity_exponent = at[sparsity_exponent],
          .data_exponent = at[data_exponent]};
}

} // namespace smelt::law
