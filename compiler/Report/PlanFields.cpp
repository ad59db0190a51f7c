#include "compiler/Report/PlanFields.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::report {
namespace {

using planner::Shape;

constexpr MatchedField matched_fields[] = {
    {"training_flops_per_token", "training FLOPs per token", &budget::Budget::training_flops_per_token,
     &planner::Residuals::training_flops},
    {"non_embedding_params", "non-embedding parameters", &budget::Budget::non_embedding_params,
     &planner::Residuals::non_embedding_params},
    {"kv_elements_per_token", "KV elements per token", &budget::Budget::kv_elements_per_token,
     &planner::Residuals::kv_cache},
};

constexpr ShapeField shape_fields[] = {
    {"hidden_size", "hidden size", &Shape::hidden_size},
    {"query_heads", "query heads", &Shape::query_heads},
    {"kv_heads", "KV heads", &Shape::kv_heads},
    {"looped_kv_heads", "looped KV heads", &Shape::looped_kv_heads},
    {"head_dim", "head size", &Shape::head_dim},
    {"expert_hidden_size", "expert width", &Shape::expert_hidden_size},
    {"experts", "experts", &Shape::experts},
    {"top_k", "experts per token", &Shape::top_k},
};

} // namespace

std::span<const MatchedField> matchedFields() { return matched_fields; }

std::vector<ShapeField> shapeFields(const spec::ModelSpec &baseline, const planner::Plan &plan) {
  bool own_kv_heads = false;
  bool other_top_k = false;
  const auto note = [&](const planner::Candidate &candidate) {
    const Shape shape = planner::shapeOf(candidate.spec);
    own_kv_heads = own_kv_heads || shape.looped_kv_heads > 0;
    other_top_k = other_top_k || shape.top_k != planner::shapeOf(baseline).top_k;
  };
  note(plan.pick);
  std::for_each(plan.runners_up.begin(), plan.runners_up.end(), note);
  std::for_each(plan.front.begin(), plan.front.end(), note);
  std::vector<ShapeField> fields;
  for (const ShapeField &field : shape_fields) {
    if ((field.member != &Shape::looped_kv_heads || own_kv_heads) &&
        (field.member != &Shape::top_k || other_top_k)) {
      fields.push_back(field);
    }
  }
  return fields;
}

std::string shapeValue(const Shape &shape, const ShapeField &field) {
  const bool uniform = field.member == &Shape::looped_kv_heads && shape.looped_kv_heads == 0;
  return std::to_string(uniform ? shape.kv_heads : shape.*field.member);
}

std::string signedPercent(double fraction) {
  // Rounded first, so that a hair's breadth below nothing is not "-0.00 %".
  const double hundredths = std::round(fraction * 1e4);
  return hundredths == 0 ? "0.00 %" : fmt::format("{:+.2f} %", hundredths / 100);
}

std::string placementText(const planner::LoopPlacement &placement, int64_t visits) {
  return fmt::format("{} layers before the loop, {} visited {} times, {} after it", placement.prelude,
                     placement.looped, visits, placement.coda);
}

} // namespace smelt::report
