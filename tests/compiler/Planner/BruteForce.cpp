#include "tests/compiler/Planner/BruteForce.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace smelt::tests {
namespace {

using namespace planner;

double relativeDifference(int64_t value, int64_t target) {
  return static_cast<double>(value - target) / static_cast<double>(target);
}

RankedShape judge(const SearchRequest &request, size_t loop, const Shape &shape) {
  const Loop &looped = request.loops[loop];
  const budget::Budget budget =
      *budget::computeBudget(applyShape(*request.baseline, *looped.looped, shape), request.attended).budget;
  RankedShape ranked{.shape = shape, .loop = loop};
  ranked.residuals = {
      relativeDifference(budget.training_flops_per_token, request.target.training_flops_per_token),
      relativeDifference(budget.non_embedding_params, request.target.non_embedding_params),
      relativeDifference(budget.kv_elements_per_token, request.target.kv_elements_per_token)};
  if (request.latency != nullptr) {
    const budget::Architecture model = applyShape(*request.baseline, *looped.looped, shape);
    ranked.residuals.latency =
        relativeDifference(predictedPicoseconds(model, *request.latency), request.target_picoseconds);
  }
  ranked.worst = ranked.residuals.worst(request.targets);
  ranked.sum = ranked.residuals.sum(request.targets);
  ranked.shape_distance =
      shapeDistance(shape, shapeOf(request.baseline->architecture), looped.visits, looped.depth_ratio);
  ranked.score = ranked.shape_distance + kResidualWeight * ranked.sum;
  ranked.fit = hardwareFit(shape);
  return ranked;
}

template <typename Less>
std::vector<RankedShape> smallest(std::vector<RankedShape> points, const Targets *targets, Less less) {
  if (targets) {
    std::erase_if(points, [&](const RankedShape &point) { return !point.residuals.within(*targets); });
  }
  const auto found = std::min_element(points.begin(), points.end(), less);
  return found == points.end() ? std::vector<RankedShape>{} : std::vector{*found};
}

} // namespace

std::vector<RankedShape> everyPoint(const SearchRequest &request) {
  std::vector<RankedShape> points;
  const ShapeLattice &lattice = request.lattice;
  for (size_t loop = 0; loop < request.loops.size(); ++loop) {
    for (const KvChoice &kv : request.loops[loop].kv_choices) {
      for (const int64_t query_heads : lattice.query_heads.values()) {
        const auto shared = [&](int64_t kv_heads) { return kv_heads == 0 || query_heads % kv_heads == 0; };
        if (!shared(kv.kv_heads) || !shared(kv.looped_kv_heads)) {
          continue;
        }
        for (const int64_t top_k : lattice.top_k.values()) {
          for (const int64_t hidden : lattice.hidden_size.values()) {
            for (const int64_t width : lattice.expert_hidden_size.values()) {
              for (const int64_t experts : lattice.experts.values()) {
                if (experts >= top_k) {
                  points.push_back(judge(request, loop,
                                         {hidden, query_heads, kv.kv_heads, kv.looped_kv_heads, kv.head_dim,
                                          width, experts, top_k, kv.kv_rank, kv.looped_kv_rank}));
                }
              }
            }
          }
        }
      }
    }
  }
  return points;
}

std::vector<RankedShape> bruteBest(const SearchRequest &request) {
  return smallest(everyPoint(request), &request.targets, std::less<>());
}

std::vector<RankedShape> bruteNearest(const SearchRequest &request) {
  return smallest(everyPoint(request), &request.targets, [](const RankedShape &a, const RankedShape &b) {
    return a.sum != b.sum ? a.sum < b.sum : a < b;
  });
}

// By the definition: no other point is at least as good in everything and better in something; of equal ones,
// the first by score.
std::vector<RankedShape> bruteFront(const SearchRequest &request) {
  std::vector<RankedShape> points = everyPoint(request);
  std::erase_if(points, [&](const RankedShape &p) { return !p.residuals.within(request.targets); });
  std::vector<FrontKey> keys;
  for (const RankedShape &point : points) {
    keys.push_back(frontKey(point));
  }
  std::vector<RankedShape> front;
  for (size_t i = 0; i < points.size(); ++i) {
    bool bettered = false;
    for (size_t j = 0; j < points.size() && !bettered; ++j) {
      bettered = keys[j].covers(keys[i]) && (keys[j] != keys[i] || points[j] < points[i]);
    }
    if (!bettered) {
      front.push_back(points[i]);
    }
  }
  const auto order = [](const RankedShape &ranked) {
    const FrontKey key = frontKey(ranked);
    return std::tuple(key.residual, key.distance, key.misfit);
  };
  std::sort(front.begin(), front.end(),
            [&](const RankedShape &a, const RankedShape &b) { return order(a) < order(b); });
  return front;
}

spec::ModelSpec mixedBaseline() {
  spec::ModelSpec spec;
  spec.name = "mixed";
  spec.vocab_size = 100;
  spec.hidden_size = 48;
  spec.attention = {.query_heads = 4, .kv_heads = 2, .head_dim = 12, .qk_norm = spec::QkNorm::per_head};
  spec.moe = spec::Moe{.experts = 12,
                       .top_k = 3,
                       .expert_hidden_size = 32,
                       .shared_experts = 2,
                       .shared_expert_hidden_size = 24};
  spec.mlp = spec::Mlp{.hidden_size = 96};
  spec::Segment biased{.layers = 2, .ffn = spec::FfnKind::dense, .attention = spec.attention};
  biased.attention.qk_norm = spec::QkNorm::full_width;
  biased.attention.qkv_bias = true;
  spec.segments = {biased, {.layers = 6, .attention = spec.attention}};
  return spec;
}

spec::ModelSpec plainBaseline() {
  spec::ModelSpec spec = mixedBaseline();
  spec.attention.qk_norm = spec::QkNorm::none;
  spec.moe->shared_experts = spec.moe->shared_expert_hidden_size = 0;
  spec.mlp.reset();
  spec.segments = {{.layers = 7, .attention = spec.attention}};
  return spec;
}

planner::Baseline latentBaseline() {
  const budget::LatentAttention attention{.heads = 4,
                                          .query_rank = 20,
                                          .kv_rank = 16,
                                          .nope_dim = 8,
                                          .rope_dim = 4,
                                          .value_dim = 6,
                                          .bias = true};
  const budget::ExpertMlp experts{
      .experts = 12, .top_k = 3, .width = 32, .correction_bias = true, .shared_width = 64};
  budget::Architecture model{.name = "latent", .vocab_size = 100, .hidden_size = 48};
  model.groups = {{.layer = {.attention = attention, .ffn = budget::DenseMlp{.width = 96}}, .layers = 1},
                  {.layer = {.attention = attention, .ffn = experts}, .layers = 6}};
  model.mtp = {{.layer = {.attention = attention, .ffn = experts}, .depth = 1}};
  planner::Baseline baseline(model);
  baseline.shared_experts = 2;
  baseline.shared_like_routed = true;
  baseline.experts_step = 2;
  return baseline;
}

planner::Baseline windowBaseline() {
  const budget::GroupedAttention attention{.query_heads = 4,
                                           .kv_heads = 2,
                                           .head_dim = 12,
                                           .query_bias = true,
                                           .key_bias = true,
                                           .value_bias = true,
                                           .output_bias = true,
                                           .sinks = true};
  const budget::ExpertMlp experts{.experts = 12, .top_k = 3, .width = 32, .bias = true, .router_bias = true};
  budget::Architecture model{.name = "window", .vocab_size = 100, .hidden_size = 48};
  for (int i = 0; i < 8; ++i) {
    const bool window = i % 2 == 0;
    model.groups.push_back({.layer = {.attention = attention,
                                      .reach = window ? budget::Reach::sliding : budget::Reach::full,
                                      .window = window ? 7 : 0,
                                      .ffn = experts},
                            .layers = 1});
  }
  return planner::Baseline(model);
}

planner::Baseline gatedBaseline() {
  const budget::GroupedAttention attention{.query_heads = 4,
                                           .kv_heads = 2,
                                           .head_dim = 12,
                                           .qk_norm = spec::QkNorm::per_head,
                                           .output_gate = true};
  const budget::LinearAttention linear{
      .key_heads = 2, .value_heads = 4, .key_dim = 6, .value_dim = 8, .conv_kernel = 4};
  const budget::ExpertMlp experts{
      .experts = 12, .top_k = 3, .width = 32, .shared_width = 40, .shared_gate = true};
  budget::Architecture model{.name = "gated", .vocab_size = 100, .hidden_size = 48};
  for (int i = 0; i < 2; ++i) {
    model.groups.push_back({.layer = {.attention = linear, .ffn = experts}, .layers = 3});
    model.groups.push_back({.layer = {.attention = attention, .ffn = experts}, .layers = 1});
  }
  planner::Baseline baseline(model);
  baseline.head_dim_step = 4;
  return baseline;
}

} // namespace smelt::tests
