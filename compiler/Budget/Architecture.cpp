#include "compiler/Budget/Architecture.h"

namespace smelt::budget {
namespace {

GroupedAttention groupedAttention(const spec::Attention &attention) {
  return {.query_heads = attention.query_heads,
          .kv_heads = attention.kv_heads,
          .head_dim = attention.head_dim,
          .query_bias = attention.qkv_bias,
          .key_bias = attention.qkv_bias,
          .value_bias = attention.qkv_bias,
          .qk_norm = attention.qk_norm};
}

ExpertMlp expertMlp(const spec::Moe &moe) {
  // A product that does not fit is no spec's: validate() bounds it. Saturated, it fails every budget.
  int64_t shared = 0;
  if (__builtin_mul_overflow(moe.shared_experts, moe.shared_expert_hidden_size, &shared)) {
    shared = INT64_MAX;
  }
  return {
      .experts = moe.experts, .top_k = moe.top_k, .width = moe.expert_hidden_size, .shared_width = shared};
}

Layer layerOf(const spec::ModelSpec &spec, const spec::Segment &segment) {
  Layer layer{.attention = groupedAttention(segment.attention), .ffn = DenseMlp{}};
  if (segment.ffn == spec::FfnKind::dense) {
    layer.ffn = DenseMlp{.width = spec.mlp ? spec.mlp->hidden_size : 0};
  } else if (spec.moe) {
    layer.ffn = expertMlp(*spec.moe);
  }
  return layer;
}

} // namespace

Architecture architectureOf(const spec::ModelSpec &spec) {
  Architecture result{.name = spec.name,
                      .vocab_size = spec.vocab_size,
                      .hidden_size = spec.hidden_size,
                      .tied = spec.tie_embeddings};
  result.groups.reserve(spec.segments.size());
  for (const spec::Segment &segment : spec.segments) {
    result.groups.push_back({.layer = layerOf(spec, segment),
                             .layers = segment.layers,
                             .visits = segment.visits,
                             .looped = segment.visits > 1});
  }
  return result;
}

Architecture Architecture::withVisits(int64_t visits) const {
  Architecture result = *this;
  for (LayerGroup &group : result.groups) {
    if (group.looped) {
      group.visits = visits;
    }
  }
  for (Adapter &adapter : result.adapters) {
    if (adapter.looped) {
      adapter.executions = visits;
    }
  }
  return result;
}

void appendLayer(std::vector<LayerGroup> &groups, const Layer &layer, int64_t visits, bool looped) {
  if (!groups.empty() && groups.back().layer == layer && groups.back().visits == visits &&
      groups.back().looped == looped) {
    ++groups.back().layers;
    return;
  }
  groups.push_back({.layer = layer, .layers = 1, .visits = visits, .looped = looped});
}

} // namespace smelt::budget
