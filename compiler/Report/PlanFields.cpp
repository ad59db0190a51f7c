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
    {"predicted_latency", "predicted latency", nullptr, &planner::Residuals::latency},
};

constexpr ShapeField shape_fields[] = {
    {"hidden_size", "hidden size", &Shape::hidden_size},
    {"query_heads", "query heads", &Shape::query_heads},
    {"kv_heads", "KV heads", &Shape::kv_heads},
    {"looped_kv_heads", "looped KV heads", &Shape::looped_kv_heads},
    {"kv_rank", "KV rank", &Shape::kv_rank},
    {"looped_kv_rank", "looped KV rank", &Shape::looped_kv_rank},
    {"head_dim", "head size", &Shape::head_dim},
    {"expert_hidden_size", "expert width", &Shape::expert_hidden_size},
    {"experts", "experts", &Shape::experts},
    {"top_k", "experts per token", &Shape::top_k},
};

} // namespace

std::span<const MatchedField> matchedFields(const planner::Plan &plan) {
  return std::span(matched_fields).first(plan.latency ? 4 : 3);
}

std::string picosecondsText(int64_t picoseconds) {
  return planner::durationText(1e-12 * static_cast<double>(picoseconds));
}

double tokensPerSecond(const planner::PlanLatency &latency, int64_t picoseconds) {
  return static_cast<double>(latency.request.step.tokens()) / (1e-12 * static_cast<double>(picoseconds));
}

std::vector<ShapeField> shapeFields(const Shape &baseline, const planner::Plan &plan) {
  const bool latent = baseline.kv_rank > 0;
  bool own_kv = false;
  bool other_top_k = false;
  const auto note = [&](const planner::Candidate &candidate) {
    own_kv = own_kv || candidate.shape.looped_kv_heads > 0 || candidate.shape.looped_kv_rank > 0;
    other_top_k = other_top_k || candidate.shape.top_k != baseline.top_k;
  };
  note(plan.pick);
  std::for_each(plan.runners_up.begin(), plan.runners_up.end(), note);
  std::for_each(plan.front.begin(), plan.front.end(), note);
  const std::pair<int64_t Shape::*, bool> conditions[] = {{&Shape::kv_heads, !latent},
                                                          {&Shape::looped_kv_heads, !latent && own_kv},
                                                          {&Shape::head_dim, !latent},
                                                          {&Shape::kv_rank, latent},
                                                          {&Shape::looped_kv_rank, latent && own_kv},
                                                          {&Shape::top_k, other_top_k}};
  std::vector<ShapeField> fields;
  for (const ShapeField &field : shape_fields) {
    const auto *condition = std::find_if(std::begin(conditions), std::end(conditions),
                                         [&](const auto &entry) { return entry.first == field.member; });
    if (condition == std::end(conditions) || condition->second) {
      fields.push_back(field);
    }
  }
  return fields;
}

int64_t shapeNumber(const Shape &shape, const ShapeField &field) {
  if (field.member == &Shape::looped_kv_heads && shape.looped_kv_heads == 0) {
    return shape.kv_heads;
  }
  return field.member == &Shape::looped_kv_rank && shape.looped_kv_rank == 0 ? shape.kv_rank
                                                                             : shape.*field.member;
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
