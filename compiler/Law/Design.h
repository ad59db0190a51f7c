// Whether runs can determine the coefficients of a law at all.
#pragma once

#include "compiler/Law/FitObjective.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace smelt::law {

// Coefficients that a fit is given instead of finding them.
struct FixedCoefficients {
  std::optional<double> floor;             // E, below every loss
  std::optional<double> model_exponent;    // a, more than 0
  std::optional<double> sparsity_exponent; // b
  std::optional<double> data_exponent;     // c, more than 0

  size_t count() const {
    return size_t(floor.has_value()) + model_exponent.has_value() + sparsity_exponent.has_value() +
           data_exponent.has_value();
  }
};

// Every reason why the runs do not determine the free coefficients, with what to add or to fix; empty when
// none is found. Runs of weight 0 are as if they were not there.
std::vector<std::string> designProblems(std::span<const Run> runs, std::span<const double> weights,
                                        const FixedCoefficients &fixed);

// The same, seen from the fitted law: terms that vanish, and coefficients whose effects on the runs are
// combinations of those of the others, to within rounding.
std::vector<std::string> fittedProblems(const FitObjective &objective, const Unknowns &at,
                                        const FixedCoefficients &fixed);

} // namespace smelt::law
