// Scaling laws, compute-optimal models and compute gains as text and JSON.
#pragma once

#include "compiler/Law/ScalingLaw.h"

#include <span>
#include <string>
#include <vector>

namespace smelt::report {

// Coefficients, then the source and the ranges of each law.
std::string lawsTable(std::span<const law::ScalingLaw> laws);
// {"laws": [...]}, each as in a law file with its "frontier_exponent".
std::string lawsJson(std::span<const law::ScalingLaw> laws);

struct LawOptimum {
  const law::ScalingLaw *law = nullptr;
  law::Optimum optimum;
};
std::string optimaTable(std::span<const LawOptimum> optima);
// {"optima": [...]}.
std::string optimaJson(std::span<const LawOptimum> optima);

// One row for each compute, one column for each sparsity; extrapolations are marked.
std::string gainsTable(const law::ScalingLaw &law, const law::ScalingLaw &reference,
                       std::span<const law::Gain> gains);
// {"gains": [{"training_flops", "sparsity_percent", "gain_percent", "extrapolated"}]}.
std::string gainsJson(std::span<const law::Gain> gains);

} // namespace smelt::report
