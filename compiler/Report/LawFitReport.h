// A fitted law as text, JSON and a plot of its residuals.
#pragma once

#include "compiler/Law/Fit.h"

#include <span>
#include <string>

namespace smelt::report {

// Coefficients with intervals, how well they fit, the largest residuals and their plot.
std::string fitTable(const law::Fit &fit, std::span<const law::Run> runs, const law::FitOptions &options);

// {"law", "intervals", "level", "rmse", ..., "residuals"}; intervals is null without a bootstrap.
std::string fitJson(const law::Fit &fit, std::span<const law::Run> runs, const law::FitOptions &options);

std::string fitPlot(const law::Fit &fit, std::span<const law::Run> runs);

} // namespace smelt::report
