// Residuals of a fit against training compute, as text and as SVG.
#pragma once

#include <span>
#include <string>

namespace smelt::report {

struct Residual {
  double training_flops = 0;
  double sparsity = 0;
  double value = 0; // measured less predicted, nats
};

// Of a fixed size; a digit counts the runs at one place.
std::string residualText(std::span<const Residual> residuals);

// A self-contained picture, readable on light and dark pages; colours tell sparsities apart.
std::string residualSvg(std::span<const Residual> residuals, const std::string &title);

} // namespace smelt::report
