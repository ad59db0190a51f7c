// Scaling laws of the form
//
//   loss(F, S, D) = E + A·(1 − S)^b / F^a + K / D^c
//
// with F training FLOPs per token, S the compute-equivalent sparsity and D the training tokens; training
// compute is C = F·D. A dense law in parameters N is the same form with b = 0 and F = 6·N. docs/laws.md
// describes the formulas, the published coefficients and where they come from.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace smelt::law {

// The letters are those of the formula; loss in nats per token.
struct Coefficients {
  double floor = 0;             // E: the loss that no compute removes
  double model_scale = 0;       // A
  double data_scale = 0;        // K
  double model_exponent = 0;    // a
  double sparsity_exponent = 0; // b
  double data_exponent = 0;     // c

  bool operator==(const Coefficients &) const = default;
};

// Both ends belong to it.
struct Range {
  double low = 0;
  double high = 0;

  bool contains(double value) const { return value >= low && value <= high; }
  bool operator==(const Range &) const = default;
};

// What the runs behind a law covered. A range that is not known is absent and nothing lies outside it.
struct Validity {
  std::optional<Range> training_flops;
  std::optional<Range> sparsity; // fractions, 0.85 for 85 %
  std::optional<Range> training_flops_per_token;
  std::optional<Range> tokens;

  bool operator==(const Validity &) const = default;
};

struct ScalingLaw {
  std::string name;
  std::string description; // of the models it was fitted to
  std::string source;
  std::string data; // what the loss is measured on; laws with different data cannot be compared. "": not said
  Coefficients coefficients = {};
  // F over the size that the coefficients are stated in: 1 for F itself, 6 for a law in parameters.
  double flops_per_size = 1;
  Validity validity = {};

  bool operator==(const ScalingLaw &) const = default;
};

// The coefficients by their letters, in the order E, A, K, a, b, c.
struct CoefficientName {
  const char *letter;
  double Coefficients::*member;
};
inline constexpr CoefficientName coefficient_names[] = {
    {"E", &Coefficients::floor},
    {"A", &Coefficients::model_scale},
    {"K", &Coefficients::data_scale},
    {"a", &Coefficients::model_exponent},
    {"b", &Coefficients::sparsity_exponent},
    {"c", &Coefficients::data_exponent},
};

// A model and its training: F, S and D.
struct TrainingRun {
  double training_flops_per_token = 0; // more than 0
  double sparsity = 0;                 // less than 1
  double tokens = 0;                   // more than 0

  double trainingFlops() const { return training_flops_per_token * tokens; }
};

// 85 for 0.85, without the last bits that a bare product leaves.
double inPercent(double fraction);

double loss(const ScalingLaw &law, const TrainingRun &run);

// What of a run lies outside the law's ranges, each in words ("1e22 training FLOPs, above 2.22e21"); empty
// when the law interpolates.
std::vector<std::string> outside(const ScalingLaw &law, const TrainingRun &run);

// The same for a point of the compute-optimal frontier, by compute and sparsity alone: the frontier chooses F
// and D, and the published tables mark points as extrapolated by compute.
std::vector<std::string> outsideFrontier(const ScalingLaw &law, double training_flops, double sparsity);

// The best model for an amount of training compute.
struct Optimum {
  double training_flops = 0; // C
  TrainingRun run;           // F*, S, D*
  double loss = 0;
  bool extrapolated = false;

  // D*/(F*/6): tokens per parameter of the dense model with these FLOPs per token.
  double tokensPerParameter() const { return 6 * run.tokens / run.training_flops_per_token; }
};

// training_flops must be more than 0, sparsity less than 1, the law's scales and exponents a, c more than 0.
//   F* = (a·A·(1 − S)^b·C^c / (c·K))^(1/(a + c))     D* = C/F*
Optimum optimum(const ScalingLaw &law, double training_flops, double sparsity);

// γ = a·c/(a + c): the reducible loss on the frontier falls as C^-γ.
double frontierExponent(const Coefficients &coefficients);

// The compute at which the frontier reaches a loss; nothing when the loss is not above the law's floor.
std::optional<double> computeForLoss(const ScalingLaw &law, double loss, double sparsity);

// How much compute a law saves against a reference at equal frontier loss.
struct Gain {
  double training_flops = 0; // what the law spends
  double sparsity = 0;
  double loss = 0;
  // What the reference needs for that loss; nothing when it never reaches it.
  std::optional<double> reference_training_flops;
  bool extrapolated = false; // either law, at its own compute

  // 1 − C/C_reference; 1 when the reference never gets there.
  double gain() const {
    return reference_training_flops ? 1 - training_flops / *reference_training_flops : 1;
  }
};

Gain computeGain(const ScalingLaw &law, const ScalingLaw &reference, double training_flops, double sparsity);

} // namespace smelt::law
