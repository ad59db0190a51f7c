#include "compiler/Budget/Visits.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace smelt::budget {
namespace {

constexpr int64_t kMaxVisits = 1 << 14;
constexpr double kMaxMean = 1024;

// Integral over the normal variable by the trapezoidal rule, which converges exponentially for it.
constexpr int kSteps = 400;
constexpr double kReach = 8; // standard deviations

std::vector<double> poissonLognormalWeights(double mean, double sigma, int64_t highest) {
  const double location = std::log(mean) - sigma * sigma / 2;
  std::vector<double> log_factorial(static_cast<size_t>(highest) + 1);
  for (size_t k = 1; k < log_factorial.size(); ++k) {
    log_factorial[k] = log_factorial[k - 1] + std::log(static_cast<double>(k));
  }
  std::vector<double> weights(static_cast<size_t>(highest) + 1);
  double total = 0;
  for (int step = 0; step <= kSteps; ++step) {
    const double z = kReach * (2.0 * step / kSteps - 1);
    const double density = std::exp(-z * z / 2);
    const double log_rate = location + sigma * z;
    const double rate = std::exp(log_rate);
    double below = 0;
    for (int64_t draw = 0; draw + 1 < highest; ++draw) {
      const auto k = static_cast<double>(draw);
      const double p = std::exp(k * log_rate - rate - log_factorial[static_cast<size_t>(draw)]);
      weights[static_cast<size_t>(draw) + 1] += density * p;
      below += p;
    }
    weights[static_cast<size_t>(highest)] += density * std::max(0.0, 1 - below);
    total += density;
  }
  for (double &weight : weights) {
    weight /= total;
  }
  return weights;
}

std::optional<double> parseNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> parseVisits(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 1 && value <= kMaxVisits ? std::optional(value) : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find(':'); end != std::string_view::npos; end = text.find(':')) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

// FLOPs without the loop, and those of one visit.
struct Split {
  int64_t outside = 0;
  int64_t visit = 0;
};

std::optional<Split> splitLoop(const Architecture &architecture, const Context &context) {
  const AccountResult without = accountFor(architecture.withVisits(0), context);
  const AccountResult once = accountFor(architecture.withVisits(1), context);
  if (!without || !once) {
    return std::nullopt;
  }
  return Split{.outside = without.account->forward_flops,
               .visit = once.account->forward_flops - without.account->forward_flops};
}

} // namespace

VisitDistribution VisitDistribution::fixed(int64_t visits) {
  VisitDistribution result;
  result.words = fmt::format("fixed:{}", visits);
  result.weights.assign(static_cast<size_t>(visits) + 1, 0);
  result.weights.back() = 1;
  return result;
}

VisitDistribution VisitDistribution::poissonLognormal(double mean, double sigma,
                                                      std::optional<int64_t> highest) {
  VisitDistribution result;
  result.words = fmt::format("poisson-lognormal:{}:{}", mean, sigma);
  if (highest) {
    result.words += fmt::format(":{}", *highest);
  }
  // Without a bound: far enough that what is left out is below 1e-9 of a visit.
  const double far = 32 + mean * std::exp(6 * sigma) * 1.5;
  result.weights = poissonLognormalWeights(
      mean, sigma, highest.value_or(std::min(kMaxVisits, static_cast<int64_t>(std::min(far, 1e9)))));
  return result;
}

std::optional<VisitDistribution> VisitDistribution::parse(std::string_view text) {
  const std::vector<std::string_view> parts = split(text);
  if (parts[0] == "fixed" && parts.size() == 2) {
    const auto visits = parseVisits(parts[1]);
    return visits ? std::optional(fixed(*visits)) : std::nullopt;
  }
  if (parts[0] != "poisson-lognormal" || parts.size() < 2 || parts.size() > 4) {
    return std::nullopt;
  }
  const auto mean = parseNumber(parts[1]);
  const auto sigma = parts.size() > 2 ? parseNumber(parts[2]) : std::optional(0.5);
  const auto highest = parts.size() > 3 ? parseVisits(parts[3]) : std::nullopt;
  if (!mean || !(*mean > 0 && *mean <= kMaxMean) || !sigma || !(*sigma >= 0 && *sigma <= 2) ||
      (parts.size() > 3 && !highest)) {
    return std::nullopt;
  }
  return poissonLognormal(*mean, *sigma, highest);
}

std::string VisitDistribution::text() const { return words; }

std::optional<VisitExpectation> expectedFlops(const Architecture &architecture, const Context &context,
                                              const VisitDistribution &distribution,
                                              std::optional<int64_t> gradient_visits) {
  const std::optional<Split> flops = splitLoop(architecture, context);
  if (!flops) {
    return std::nullopt;
  }
  double visits = 0;
  double trained = 0;
  for (size_t r = 0; r < distribution.probabilities().size(); ++r) {
    const double p = distribution.probabilities()[r];
    const auto count = static_cast<int64_t>(r);
    visits += p * static_cast<double>(count);
    trained += p * static_cast<double>(std::min(count, gradient_visits.value_or(count)));
  }
  const auto outside = static_cast<double>(flops->outside);
  const auto visit = static_cast<double>(flops->visit);
  return VisitExpectation{.visits = visits,
                          .forward_flops = outside + visits * visit,
                          .training_flops = 3 * outside + (3 * trained + (visits - trained)) * visit};
}

std::optional<int64_t> truncatedTrainingFlops(const Architecture &architecture, const Context &context,
                                              int64_t visits, int64_t gradient_visits) {
  const std::optional<Split> flops = splitLoop(architecture, context);
  if (!flops) {
    return std::nullopt;
  }
  const int64_t trained = std::min(visits, gradient_visits);
  return (CheckedInt(3) * flops->outside + (CheckedInt(2 * trained) + visits) * flops->visit).value();
}

} // namespace smelt::budget
