#include "compiler/Planner/Infeasible.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace smelt::planner {
namespace {

using budget::Budget;

// What was asked for.
struct Wish {
  const Budget &target;
  const Targets &targets;
  const std::optional<PlanLatency> &latency;

  std::span<const MatchedBudget> budgets() const { return matchedBudgets(targets.askForLatency()); }
};

std::string picosecondsText(int64_t picoseconds) {
  return durationText(1e-12 * static_cast<double>(picoseconds));
}

// "training_flops_per_token is 123, +7.10 % from the baseline's 115".
std::string differenceText(const MatchedBudget &matched, const Candidate &candidate, const Wish &wish) {
  const bool counted = matched.value != nullptr;
  return fmt::format("{} is {}, {:+.2f} % from the baseline's {}", matched.key,
                     counted ? std::to_string(candidate.budget.*matched.value)
                             : picosecondsText(candidate.picoseconds),
                     100 * candidate.residuals.*matched.residual,
                     counted ? std::to_string(wish.target.*matched.value)
                             : picosecondsText(wish.latency->baseline_picoseconds));
}

std::string missText(const Candidate &candidate, const Wish &wish) {
  std::string misses;
  for (const MatchedBudget &matched : wish.budgets()) {
    if (std::fabs(candidate.residuals.*matched.residual) > (wish.targets.*matched.target).tolerance) {
      misses += (misses.empty() ? "" : "; ") + differenceText(matched, candidate, wish);
    }
  }
  return misses;
}

std::string toleranceText(const Wish &wish) {
  const double first = wish.targets.training_flops.tolerance;
  const auto same = [&](const MatchedBudget &matched) {
    return (wish.targets.*matched.target).tolerance == first;
  };
  if (std::all_of(wish.budgets().begin(), wish.budgets().end(), same)) {
    return fmt::format("{} % of every budget", 100 * first);
  }
  std::string text;
  for (const MatchedBudget &matched : wish.budgets()) {
    const double tolerance = (wish.targets.*matched.target).tolerance;
    if (std::isfinite(tolerance)) {
      text += fmt::format("{}{} % of {}", text.empty() ? "" : " and ", 100 * tolerance, matched.key);
    }
  }
  return text;
}

std::string pointText(const Candidate &candidate) { return shapeText(candidate.shape, false); }

std::string reachText(const BudgetReach &reach, const Wish &wish) {
  const bool four = wish.targets.askForLatency();
  for (const MatchedBudget &matched : wish.budgets()) {
    if (matched.key == reach.budget) {
      return reach.closest
                 ? fmt::format("with the other {} met, the closest {} ({})", four ? "three" : "two",
                               differenceText(matched, *reach.closest, wish), pointText(*reach.closest))
                 : fmt::format("even without {}, the other {} be met", reach.budget,
                               four ? "three cannot all" : "two cannot both");
    }
  }
  return "";
}

} // namespace

std::span<const MatchedBudget> matchedBudgets(bool with_latency) {
  static constexpr std::array<MatchedBudget, 4> budgets{{
      {"training_flops_per_token", &Budget::training_flops_per_token, &Residuals::training_flops,
       &Targets::training_flops},
      {"non_embedding_params", &Budget::non_embedding_params, &Residuals::non_embedding_params,
       &Targets::non_embedding_params},
      {"kv_elements_per_token", &Budget::kv_elements_per_token, &Residuals::kv_cache, &Targets::kv_cache},
      {"predicted_latency", nullptr, &Residuals::latency, &Targets::latency},
  }};
  return std::span(budgets).first(with_latency ? 4 : 3);
}

std::string shapeText(const Shape &shape, bool with_top_k) {
  std::string text;
  const auto add = [&](const char *name, int64_t value, bool says_something = true) {
    if (says_something && value > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
    }
  };
  add("hidden_size", shape.hidden_size);
  add("query_heads", shape.query_heads);
  add("kv_heads", shape.kv_heads);
  add("looped kv_heads", shape.looped_kv_heads);
  add("kv_rank", shape.kv_rank);
  add("looped kv_rank", shape.looped_kv_rank);
  add("head_dim", shape.head_dim, shape.kv_rank == 0);
  add("expert_hidden_size", shape.expert_hidden_size);
  add("experts", shape.experts);
  add("top_k", shape.top_k, with_top_k);
  return text;
}

std::string infeasibleText(const PlanResult &result, const Budget &target, const Targets &targets,
                           const std::optional<PlanLatency> &latency) {
  const Wish wish{target, targets, latency};
  if (!result.nearest) {
    return "the lattice has no points: no head size and numbers of heads of it go together, or no KV rank "
           "keeps the KV cache; name some with head_dim and kv_heads, or kv_rank and looped_kv_rank";
  }
  std::string text =
      fmt::format("no point of the lattice is within {}; at the nearest ({}) {}", toleranceText(wish),
                  pointText(*result.nearest), missText(*result.nearest, wish));
  for (const BudgetReach &reach : result.reach) {
    text += "\n  " + reachText(reach, wish);
  }
  for (size_t i = 1; i < result.nearest_points.size(); ++i) {
    const Candidate &candidate = result.nearest_points[i];
    text += fmt::format("\n  next nearest ({}): {}", pointText(candidate), missText(candidate, wish));
  }
  return text;
}

} // namespace smelt::planner
