#include "compiler/Law/ScalingLaw.h"

#include <cmath>
#include <fmt/format.h>

namespace smelt::law {

namespace {

// log of A·(1 − S)^b, with A restated for F instead of the law's own size.
double logModelScale(const ScalingLaw &law, double sparsity) {
  const Coefficients &k = law.coefficients;
  return std::log(k.model_scale) + k.model_exponent * std::log(law.flops_per_size) +
         k.sparsity_exponent * std::log1p(-sparsity);
}

double logOptimalFlopsPerToken(const ScalingLaw &law, double training_flops, double sparsity) {
  const Coefficients &k = law.coefficients;
  return (std::log(k.model_exponent / (k.data_exponent * k.data_scale)) + logModelScale(law, sparsity) +
          k.data_exponent * std::log(training_flops)) /
         (k.model_exponent + k.data_exponent);
}

std::string count(double value) { return fmt::format("{:.3g}", value); }

std::string percent(double fraction) { return fmt::format("{:.3g} %", 100 * fraction); }

void compare(std::vector<std::string> &found, const std::optional<Range> &range, double value,
             std::string (*text)(double), const char *what) {
  if (!range || range->contains(value)) {
    return;
  }
  bool below = value < range->low;
  found.push_back(fmt::format("{} {}, {} {}", text(value), what, below ? "below" : "above",
                              text(below ? range->low : range->high)));
}

void compareFrontier(std::vector<std::string> &found, const Validity &validity, double training_flops,
                     double sparsity) {
  compare(found, validity.training_flops, training_flops, count, "training FLOPs");
  compare(found, validity.sparsity, sparsity, percent, "sparsity");
}

} // namespace

double inPercent(double fraction) { return std::round(fraction * 1e14) / 1e12; }

double loss(const ScalingLaw &law, const TrainingRun &run) {
  const Coefficients &k = law.coefficients;
  return k.floor +
         std::exp(logModelScale(law, run.sparsity) -
                  k.model_exponent * std::log(run.training_flops_per_token)) +
         k.data_scale * std::pow(run.tokens, -k.data_exponent);
}

std::vector<std::string> outside(const ScalingLaw &law, const TrainingRun &run) {
  std::vector<std::string> found;
  compareFrontier(found, law.validity, run.trainingFlops(), run.sparsity);
  compare(found, law.validity.training_flops_per_token, run.training_flops_per_token, count,
          "training FLOPs per token");
  compare(found, law.validity.tokens, run.tokens, count, "tokens");
  return found;
}

std::vector<std::string> outsideFrontier(const ScalingLaw &law, double training_flops, double sparsity) {
  std::vector<std::string> found;
  compareFrontier(found, law.validity, training_flops, sparsity);
  return found;
}

Optimum optimum(const ScalingLaw &law, double training_flops, double sparsity) {
  Optimum best;
  best.training_flops = training_flops;
  best.run.sparsity = sparsity;
  best.run.training_flops_per_token = std::exp(logOptimalFlopsPerToken(law, training_flops, sparsity));
  best.run.tokens = training_flops / best.run.training_flops_per_token;
  best.loss = loss(law, best.run);
  best.extrapolated = !outsideFrontier(law, training_flops, sparsity).empty();
  return best;
}

double frontierExponent(const Coefficients &coefficients) {
  double a = coefficients.model_exponent;
  double c = coefficients.data_exponent;
  return a * c / (a + c);
}

std::optional<double> computeForLoss(const ScalingLaw &law, double loss, double sparsity) {
  double reducible = loss - law.coefficients.floor;
  if (!(reducible > 0)) {
    return std::nullopt;
  }
  // On the frontier the reducible loss is a power of C, so one point of it gives all others.
  double at_one = optimum(law, 1, sparsity).loss - law.coefficients.floor;
  return std::exp(std::log(at_one / reducible) / frontierExponent(law.coefficients));
}

Gain computeGain(const ScalingLaw &law, const ScalingLaw &reference, double training_flops, double sparsity) {
  Optimum best = optimum(law, training_flops, sparsity);
  Gain gain;
  gain.training_flops = training_flops;
  gain.sparsity = sparsity;
  gain.loss = best.loss;
  gain.reference_training_flops = computeForLoss(reference, best.loss, sparsity);
  gain.extrapolated = best.extrapolated || !gain.reference_training_flops ||
                      !outsideFrontier(reference, *gain.reference_training_flops, sparsity).empty();
  return gain;
}

} // namespace smelt::law
