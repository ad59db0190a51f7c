#include "compiler/Law/Design.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace smelt::law {

namespace {

// Values nearer than this are one: sizes of the same model at several sparsities differ by a per cent or two.
constexpr double distinct_ratio = 1.05;
// Beyond it, what one quantity does to the loss is what the other does.
constexpr double too_correlated = 0.999;
// A term below this part of the loss does not show in losses printed to seven digits.
constexpr double vanishing_part = 1e-6;
// Squared sine of the angle between an effect and those of the other coefficients.
constexpr double dependent_effect = 1e-12;

// Logarithms of one quantity over the runs that count.
using Logs = std::vector<double>;

size_t distinct(Logs logs) {
  std::sort(logs.begin(), logs.end());
  size_t count = logs.empty() ? 0 : 1;
  for (size_t i = 1; i < logs.size(); ++i) {
    count += logs[i] - logs[i - 1] > std::log(distinct_ratio) ? 1 : 0;
  }
  return count;
}

double correlation(const Logs &x, const Logs &y) {
  double count = static_cast<double>(x.size());
  double mean_x = 0;
  double mean_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / count;
    mean_y += y[i] / count;
  }
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

class DesignCheck {
public:
  DesignCheck(std::span<const Run> runs, std::span<const double> weights, const FixedCoefficients &fixed)
      : fixed(fixed) {
    for (size_t i = 0; i < runs.size(); ++i) {
      if (weights[i] > 0) {
        flops.push_back(std::log(runs[i].training_flops_per_token));
        dense.push_back(std::log1p(-runs[i].sparsity));
        tokens.push_back(std::log(runs[i].tokens));
        losses.push_back(std::log(runs[i].loss));
        sparsest = std::max(sparsest, runs[i].sparsity);
      }
    }
  }

  std::vector<std::string> problems() {
    checkLosses();
    needDistinct("training_flops_per_token", distinct(flops), "a", fixed.model_exponent.has_value());
    needDistinct("tokens", distinct(tokens), "c", fixed.data_exponent.has_value());
    if (!fixed.sparsity_exponent && distinct(dense) < 2) {
      found.push_back(fmt::format("all runs have about {:.3g} % sparsity, which does not tell b from A: add "
                                  "runs of another sparsity or fix b",
                                  100 * sparsest));
    }
    if (found.empty()) {
      needSeparate("training_flops_per_token", flops, "tokens", tokens);
      if (!fixed.sparsity_exponent) {
        needSeparate("training_flops_per_token", flops, "1 - sparsity", dense);
        needSeparate("tokens", tokens, "1 - sparsity", dense);
      }
    }
    return std::move(found);
  }

private:
  void checkLosses() {
    auto [low, high] = std::minmax_element(losses.begin(), losses.end());
    if (low != losses.end() && *low == *high) {
      found.push_back(fmt::format("all runs have the same loss, {:g}", std::exp(*low)));
    }
    if (low != losses.end() && fixed.floor && !(std::log(*fixed.floor) < *low)) {
      found.push_back(
          fmt::format("E is fixed at {:g}, not below the lowest loss {:g}", *fixed.floor, std::exp(*low)));
    }
  }

  // A constant plus a power needs three points, a power of known exponent two.
  void needDistinct(const char *column, size_t present, const char *exponent, bool exponent_fixed) {
    size_t needed = exponent_fixed ? 2 : 3;
    if (present < needed) {
      found.push_back(fmt::format("{} has {} {}, counting those within {:.0f} % as one; {} are needed{}",
                                  column, present, present == 1 ? "value" : "values",
                                  100 * (distinct_ratio - 1), needed,
                                  exponent_fixed ? "" : fmt::format(", or 2 with {} fixed", exponent)));
    }
  }

  void needSeparate(const char *x_name, const Logs &x, const char *y_name, const Logs &y) {
    double r = correlation(x, y);
    if (std::abs(r) > too_correlated) {
      found.push_back(fmt::format("{} and {} vary together (their logarithms correlate at {:.4f}), so their "
                                  "effects cannot be told apart: add runs that vary one alone",
                                  x_name, y_name, r));
    }
  }

  const FixedCoefficients &fixed;
  Logs flops;
  Logs dense; // of 1 − S
  Logs tokens;
  Logs losses;
  double sparsest = 0;
  std::vector<std::string> found;
};

struct Effect {
  const char *letter;
  std::vector<double> values; // one per run, of length 1
  double norm2 = 1;           // of what the effects chosen so far leave of it
};

// The effects on the runs of the free coefficients.
std::vector<Effect> freeEffects(const FitObjective &objective, const Unknowns &at,
                                const FixedCoefficients &fixed) {
  constexpr const char *letters[unknown_count] = {"E", "A", "K", "a", "b", "c"};
  const bool is_fixed[unknown_count] = {fixed.floor.has_value(),
                                        false,
                                        false,
                                        fixed.model_exponent.has_value(),
                                        fixed.sparsity_exponent.has_value(),
                                        fixed.data_exponent.has_value()};
  std::vector<Effect> effects;
  for (size_t j = 0; j < unknown_count; ++j) {
    if (is_fixed[j]) {
      continue;
    }
    Effect effect{letters[j], {}};
    double sum = 0;
    for (size_t i = 0; i < objective.size(); ++i) {
      Unknowns gradient;
      objective.residual(at, i, gradient);
      effect.values.push_back(gradient[j]);
      sum += gradient[j] * gradient[j];
    }
    for (double &value : effect.values) {
      value /= std::sqrt(sum);
    }
    effects.push_back(std::move(effect));
  }
  return effects;
}

// Takes the effects one by one, each time the one that the chosen ones explain least (Gram-Schmidt with
// pivoting); returns the letters of those that are explained entirely.
std::vector<const char *> dependentCoefficients(std::vector<Effect> effects) {
  while (!effects.empty()) {
    auto chosen = std::max_element(effects.begin(), effects.end(),
                                   [](const Effect &x, const Effect &y) { return x.norm2 < y.norm2; });
    if (chosen->norm2 < dependent_effect) {
      break;
    }
    Effect direction = std::move(*chosen);
    effects.erase(chosen);
    for (Effect &effect : effects) {
      double along = 0;
      for (size_t i = 0; i < effect.values.size(); ++i) {
        along += effect.values[i] * direction.values[i] / direction.norm2;
      }
      effect.norm2 = 0;
      for (size_t i = 0; i < effect.values.size(); ++i) {
        effect.values[i] -= along * direction.values[i];
        effect.norm2 += effect.values[i] * effect.values[i];
      }
    }
  }
  std::vector<const char *> letters;
  for (const Effect &effect : effects) {
    letters.push_back(effect.letter);
  }
  return letters;
}

double largestPart(const FitObjective &objective, const Unknowns &at, Unknown term) {
  double largest = 0;
  for (size_t i = 0; i < objective.size(); ++i) {
    Unknowns gradient;
    objective.residual(at, i, gradient);
    largest = std::max(largest, gradient[term]);
  }
  return largest;
}

} // namespace

std::vector<std::string> designProblems(std::span<const Run> runs, std::span<const double> weights,
                                        const FixedCoefficients &fixed) {
  return DesignCheck(runs, weights, fixed).problems();
}

std::vector<std::string> fittedProblems(const FitObjective &objective, const Unknowns &at,
                                        const FixedCoefficients &fixed) {
  std::vector<std::string> found;
  if (largestPart(objective, at, log_model_term) < vanishing_part) {
    found.emplace_back("the loss does not depend on training_flops_per_token: A·(1−S)^b/F^a fits best at 0");
  }
  if (largestPart(objective, at, log_data_term) < vanishing_part) {
    found.emplace_back("the loss does not depend on tokens: K/D^c fits best at 0");
  }
  if (found.empty()) {
    std::vector<const char *> letters = dependentCoefficients(freeEffects(objective, at, fixed));
    if (!letters.empty()) {
      found.push_back(fmt::format("the runs do not determine {} apart from the other coefficients",
                                  fmt::join(letters, ", ")));
    }
  }
  return found;
}

} // namespace smelt::law
