#include "compiler/Planner/Infeasible.h"

#include <cmath>
#include <fmt/format.h>

namespace smelt::planner {
namespace {

using budget::Budget;

// "training_flops_per_token is 123, +7.10 % from the baseline's 115".
std::string differenceText(const MatchedBudget &matched, const Candidate &candidate, const Budget &target) {
  return fmt::format("{} is {}, {:+.2f} % from the baseline's {}", matched.key,
                     candidate.budget.*matched.value, 100 * candidate.residuals.*matched.residual,
                     target.*matched.value);
}

std::string missText(const Candidate &candidate, const Budget &target, const Targets &targets) {
  std::string misses;
  for (const MatchedBudget &matched : matchedBudgets()) {
    if (std::fabs(candidate.residuals.*matched.residual) > (targets.*matched.target).tolerance) {
      misses += (misses.empty() ? "" : "; ") + differenceText(matched, candidate, target);
    }
  }
  return misses;
}

std::string toleranceText(const Targets &targets) {
  const double first = targets.training_flops.tolerance;
  if (targets.non_embedding_params.tolerance == first && targets.kv_cache.tolerance == first) {
    return fmt::format("{} % of every budget", 100 * first);
  }
  std::string text;
  for (const MatchedBudget &matched : matchedBudgets()) {
    const double tolerance = (targets.*matched.target).tolerance;
    if (std::isfinite(tolerance)) {
      text += fmt::format("{}{} % of {}", text.empty() ? "" : " and ", 100 * tolerance, matched.key);
    }
  }
  return text;
}

std::string pointText(const Candidate &candidate) { return shapeText(candidate.shape, false); }

std::string reachText(const BudgetReach &reach, const Budget &target) {
  for (const MatchedBudget &matched : matchedBudgets()) {
    if (matched.key == reach.budget) {
      return reach.closest
                 ? fmt::format("with the other two met, the closest {} ({})",
                               differenceText(matched, *reach.closest, target), pointText(*reach.closest))
                 : fmt::format("even without {}, the other two cannot both be met", reach.budget);
    }
  }
  return "";
}

} // namespace

const std::array<MatchedBudget, 3> &matchedBudgets() {
  static const std::array<MatchedBudget, 3> budgets{{
      {"training_flops_per_token", &Budget::training_flops_per_token, &Residuals::training_flops,
       &Targets::training_flops},
      {"non_embedding_params", &Budget::non_embedding_params, &Residuals::non_embedding_params,
       &Targets::non_embedding_params},
      {"kv_elements_per_token", &Budget::kv_elements_per_token, &Residuals::kv_cache, &Targets::kv_cache},
  }};
  return budgets;
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

std::string infeasibleText(const PlanResult &result, const Budget &target, const Targets &targets) {
  if (!result.nearest) {
    return "the lattice has no points: no head size and numbers of heads of it go together, or no KV rank "
           "keeps the KV cache; name some with head_dim and kv_heads, or kv_rank and looped_kv_rank";
  }
  std::string text =
      fmt::format("no point of the lattice is within {}; at the nearest ({}) {}", toleranceText(targets),
                  pointText(*result.nearest), missText(*result.nearest, target, targets));
  for (const BudgetReach &reach : result.reach) {
    text += "\n  " + reachText(reach, target);
  }
  for (size_t i = 1; i < result.nearest_points.size(); ++i) {
    const Candidate &candidate = result.nearest_points[i];
    text +=
        fmt::format("\n  next nearest ({}): {}", pointText(candidate), missText(candidate, target, targets));
  }
  return text;
}

} // namespace smelt::planner
