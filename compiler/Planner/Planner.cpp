#include "compiler/Planner/Planner.h"

#include "compiler/Spec/SpecValidator.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::planner {
namespace {

using budget::Budget;
using spec::ModelSpec;

PlanResult refuse(smelt_status status, std::string error) {
  return {.plan = std::nullopt, .status = status, .error = std::move(error), .nearest = std::nullopt};
}

std::string checkOptions(const PlanOptions &options) {
  if (options.visits < 2 || options.visits > spec::Limits::visits) {
    return fmt::format("visits must be from 2 to {}, not {}", spec::Limits::visits, options.visits);
  }
  if (!(options.span > 0.0) || options.span > 1.0) {
    return fmt::format("span must be more than 0 and at most 1, not {}", options.span);
  }
  if (!(options.tolerance >= 0.0) || options.tolerance >= 1.0) {
    return fmt::format("tolerance must be at least 0 and less than 1, not {}", options.tolerance);
  }
  for (const auto &[name, step] :
       {std::pair("hidden_size", options.hidden_size_step), std::pair("head_dim", options.head_dim_step),
        std::pair("expert_hidden_size", options.expert_hidden_size_step),
        std::pair("experts", options.experts_step)}) {
    if (step < 1 || step > spec::Limits::width) {
      return fmt::format("the step of {} must be from 1 to {}, not {}", name, spec::Limits::width, step);
    }
  }
  for (int64_t heads : options.kv_heads) {
    if (heads < 1 || heads > spec::Limits::heads) {
      return fmt::format("a number of KV heads must be from 1 to {}, not {}", spec::Limits::heads, heads);
    }
  }
  return "";
}

// Why the matcher cannot take this baseline, or "".
std::string checkBaseline(const ModelSpec &baseline) {
  if (!baseline.moe) {
    return "the baseline has no [moe]: without experts, parameters and FLOPs cannot be matched apart; start "
           "from an "
           "MoE model";
  }
  for (size_t i = 0; i < baseline.segments.size(); ++i) {
    const spec::Attention &attention = baseline.segments[i].attention;
    if (attention.query_heads != baseline.attention.query_heads ||
        attention.kv_heads != baseline.attention.kv_heads ||
        attention.head_dim != baseline.attention.head_dim) {
      return fmt::format(
          "segment {} overrides the heads of [attention]: the matcher gives all layers one geometry; "
          "remove the override",
          i + 1);
    }
  }
  return "";
}

Candidate candidateOf(const RankedShape &ranked, const ModelSpec &looped, const PlanOptions &options) {
  Candidate candidate{.spec = applyShape(looped, ranked.shape),
                      .residuals = ranked.residuals,
                      .shape_distance = ranked.shape_distance,
                      .score = ranked.score};
  candidate.spec.name = options.name.empty() ? looped.name + "-looped" : options.name;
  candidate.budget = budget::computeBudget(candidate.spec, options.attended).budget.value_or(Budget{});
  return candidate;
}

// "training_flops_per_token is 123, +7.1 % from the baseline's 115".
std::string missText(std::string_view name, int64_t value, int64_t target, double residual) {
  return fmt::format("{} is {}, {:+.2f} % from the baseline's {}", name, value, 100 * residual, target);
}

std::string infeasibleText(const Candidate &nearest, const Budget &target, double tolerance) {
  std::string misses;
  const auto check = [&](std::string_view name, int64_t value, int64_t wanted, double residual) {
    if (std::fabs(residual) > tolerance) {
      misses += (misses.empty() ? "" : "; ") + missText(name, value, wanted, residual);
    }
  };
  const Budget &budget = nearest.budget;
  check("training_flops_per_token", budget.training_flops_per_token, target.training_flops_per_token,
        nearest.residuals.training_flops);
  check("non_embedding_params", budget.non_embedding_params, target.non_embedding_params,
        nearest.residuals.non_embedding_params);
  check("kv_elements_per_token", budget.kv_elements_per_token, target.kv_elements_per_token,
        nearest.residuals.kv_cache);
  const Shape shape = shapeOf(nearest.spec);
  return fmt::format(
      "no point of the lattice is within {} % of every budget; at the nearest (hidden_size {}, "
      "query_heads {}, kv_heads {}, head_dim {}, expert_hidden_size {}, experts {}) {}",
      100 * tolerance, shape.hidden_size, shape.query_heads, shape.kv_heads, shape.head_dim,
      shape.expert_hidden_size, shape.experts, misses);
}

PlanResult search(const ModelSpec &baseline, const ModelSpec &looped, const Budget &target,
                  const PlanOptions &options) {
  const SearchResult found = searchShapes({.baseline = &baseline,
                                           .looped = &looped,
                                           .target = target,
                                           .attended = options.attended,
                                           .lattice = latticeFor(baseline, options),
                                           .tolerance = options.tolerance,
                                           .keep = options.runners_up + 1});
  if (found.matches.empty()) {
    PlanResult result = refuse(SMELT_infeasible, "the lattice has no points");
    if (found.nearest) {
      result.nearest = candidateOf(*found.nearest, looped, options);
      result.error = infeasibleText(*result.nearest, target, options.tolerance);
    }
    return result;
  }
  Plan plan{.placement = *placeLoop(baseline.physicalLayers(), options.span),
            .attended = options.attended,
            .baseline = target,
            .pick = candidateOf(found.matches.front(), looped, options)};
  for (size_t i = 1; i < found.matches.size(); ++i) {
    plan.runners_up.push_back(candidateOf(found.matches[i], looped, options));
  }
  return {.plan = std::move(plan), .status = SMELT_ok, .error = "", .nearest = std::nullopt};
}

} // namespace

ShapeLattice latticeFor(const ModelSpec &baseline, const PlanOptions &options) {
  const spec::Attention &attention = baseline.attention;
  const spec::Moe &moe = *baseline.moe;
  ShapeLattice lattice;
  lattice.kv_heads = options.kv_heads.empty() ? std::vector<int64_t>{attention.kv_heads} : options.kv_heads;
  std::sort(lattice.kv_heads.begin(), lattice.kv_heads.end());
  lattice.kv_heads.erase(std::unique(lattice.kv_heads.begin(), lattice.kv_heads.end()),
                         lattice.kv_heads.end());
  const int64_t widest_head =
      (2 * attention.kvWidth() + lattice.kv_heads.front() - 1) / lattice.kv_heads.front();
  // RoPE needs an even head_dim.
  const int64_t head_step =
      options.head_dim_step % 2 == 0 ? options.head_dim_step : 2 * options.head_dim_step;
  using spec::Limits;
  lattice.hidden_size = {options.hidden_size_step, (baseline.hidden_size + 3) / 4,
                         std::min(2 * baseline.hidden_size, Limits::width)};
  lattice.head_dim = {head_step, 2, std::min(widest_head, Limits::head_dim)};
  lattice.expert_hidden_size = {options.expert_hidden_size_step, (moe.expert_hidden_size + 7) / 8,
                                std::min(2 * moe.expert_hidden_size, Limits::width)};
  lattice.experts = {options.experts_step, moe.top_k, std::min(16 * moe.experts, Limits::experts)};
  lattice.max_query_heads =
      std::min(4 * std::max(attention.query_heads, lattice.kv_heads.back()), Limits::heads);
  return lattice;
}

PlanResult plan(const ModelSpec &baseline, const PlanOptions &options) {
  if (const std::string error = checkOptions(options); !error.empty()) {
    return refuse(SMELT_usage, error);
  }
  if (const std::string error = checkBaseline(baseline); !error.empty()) {
    return refuse(SMELT_unsupported, error);
  }
  const LoopedResult looped = loopMiddle(baseline, options.span, options.visits);
  if (!looped.spec) {
    return refuse(SMELT_unsupported, looped.error);
  }
  const budget::BudgetResult target = budget::computeBudget(baseline, options.attended);
  if (!target) {
    return refuse(SMELT_usage, target.error);
  }
  return search(baseline, *looped.spec, *target.budget, options);
}

} // namespace smelt::planner
