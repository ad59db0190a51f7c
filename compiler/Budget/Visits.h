// Loops whose number of visits is drawn anew for every training step, and whose gradient goes through the
// last visits only: the mean cost is not the cost of the mean.
#pragma once

#include "compiler/Budget/Accounting.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::budget {

// How often a loop is visited. Poisson-lognormal (Huginn, arXiv 2502.05171): a rate exp(t) with t normal of
// mean ln(mean) - sigma^2/2, a Poisson draw of that rate, plus one, at most `highest`. Its mean is mean + 1
// but for the bound.
class VisitDistribution {
public:
  static VisitDistribution fixed(int64_t visits);
  static VisitDistribution poissonLognormal(double mean, double sigma, std::optional<int64_t> highest = {});
  // "fixed:4", "poisson-lognormal:32", "poisson-lognormal:4:0.5:16" (mean, sigma, highest); nothing for
  // anything else.
  static std::optional<VisitDistribution> parse(std::string_view text);

  std::string text() const;
  // probabilities()[r] of r visits; they add up to 1.
  const std::vector<double> &probabilities() const { return weights; }

private:
  std::string words;
  std::vector<double> weights;
};

struct VisitExpectation {
  double visits = 0;
  double forward_flops = 0;  // per token, layers and adapters, as Account::forward_flops
  double training_flops = 0; // three times forward, but once for visits that no gradient goes through
};

// Expected FLOPs of a model that loops. Of r visits the last `gradient_visits` are trained through; all when
// missing. Nothing when a count does not fit 64 bits.
std::optional<VisitExpectation> expectedFlops(const Architecture &architecture, const Context &context,
                                              const VisitDistribution &distribution,
                                              std::optional<int64_t> gradient_visits = {});

// FLOPs of training with exactly that many visits, as an integer.
std::optional<int64_t> truncatedTrainingFlops(const Architecture &architecture, const Context &context,
                                              int64_t visits, int64_t gradient_visits);

} // namespace smelt::budget
