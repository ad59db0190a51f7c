// DeepSeek's mixtures: DeepSeek-V2 and V3 and Kimi-K2 with latent attention, GLM-4.5 with grouped attention.
#include "compiler/Import/HuggingFaceFamily.h"

#include <algorithm>
#include <fmt/format.h>

namespace smelt::hf {
namespace {

using budget::DenseMlp;
using budget::ExpertMlp;
using budget::Layer;

// A key that the classes have different defaults for, so that files must have it; null is 0.
int64_t mustCount(ConfigReader &reader, std::string_view key, std::string_view null_means) {
  if (!reader.given(key)) {
    reader.problem(key, fmt::format("'{}' is missing; null for {}", key, null_means));
  }
  return reader.count({key}, 0);
}

ExpertMlp readExperts(ConfigReader &reader, Model &model, bool correction_bias) {
  ExpertMlp mlp{.experts = reader.size({"n_routed_experts", "num_experts", "num_local_experts"}),
                .top_k = reader.size({"num_experts_per_tok"}),
                .width = reader.size({"moe_intermediate_size"}),
                .correction_bias = correction_bias};
  checkTopK(reader, mlp);
  model.equal_shared = mustCount(reader, "n_shared_experts", "no shared experts");
  mlp.shared_width = mlp.width * model.equal_shared;
  return mlp;
}

// The first layers are dense; after them a mixture in every `moe_layer_freq`-th.
std::vector<budget::LayerGroup> buildDeepSeekLayers(ConfigReader &reader, const Trunk &trunk,
                                                    const budget::Attention &attention,
                                                    const ExpertMlp &experts) {
  const int64_t dense_layers = mustCount(reader, "first_k_dense_replace", "no dense layers");
  const int64_t frequency = reader.size({"moe_layer_freq"}, 1);
  const bool any_dense = dense_layers > 0 || frequency > 1;
  const DenseMlp dense{.width = any_dense ? reader.size({"intermediate_size"})
                                          : reader.size({"intermediate_size"}, 1)};
  return buildLayers(trunk.layers, [&](int64_t i) {
    Layer layer{.attention = attention, .ffn = dense};
    if (i >= dense_layers && i % frequency == 0) {
      layer.ffn = experts;
    }
    return layer;
  });
}

void readMtp(ConfigReader &reader, Model &model, const budget::Attention &attention,
             const ExpertMlp &experts) {
  const int64_t depth = reader.count({"num_nextn_predict_layers", "num_mtp_layers"}, 0);
  if (depth > 0) {
    model.architecture.mtp =
        budget::MultiTokenPrediction{.layer = {.attention = attention, .ffn = experts}, .depth = depth};
    model.notes.emplace_back("multi-token prediction counts in stored_params and mtp_* alone");
  }
}

void readRouting(ConfigReader &reader, Model &model, std::string_view scoring, bool renormalize) {
  const std::string function = reader.word({"scoring_func"}, scoring);
  if (function == "sigmoid") {
    model.router = spec::RouterKind::sigmoid;
  } else if (function != "softmax") {
    beyondSpec(model, fmt::format("the router function \"{}\"", function));
  }
  model.renormalize = reader.flag({"norm_topk_prob"}, renormalize);
  beyondUnless(reader, model, "routed_scaling_factor", 1.0);
  const int64_t groups = reader.count({"n_group"}, 1);
  const int64_t chosen = reader.count({"topk_group"}, 1);
  model.expert_groups = std::max<int64_t>(1, groups);
  if (groups > 1 || chosen > 1) {
    beyondSpec(model, "routing within groups of experts (n_group)");
  }
}

budget::LatentAttention readLatentAttention(ConfigReader &reader, const Trunk &trunk) {
  reader.ignore({"head_dim", "qk_head_dim"}); // derived
  return {.heads = trunk.heads,
          .query_rank = mustCount(reader, "q_lora_rank", "one full query projection"),
          .kv_rank = reader.size({"kv_lora_rank"}),
          .nope_dim = reader.size({"qk_nope_head_dim"}),
          .rope_dim = reader.size({"qk_rope_head_dim"}),
          .value_dim = reader.size({"v_head_dim"}),
          .bias = reader.flag({"attention_bias"}, false)};
}

void readDeepSeek(ConfigReader &reader, Model &model, std::string_view method, std::string_view scoring,
                  bool renormalize) {
  const Trunk trunk = readTrunk(reader, model);
  const budget::LatentAttention attention = readLatentAttention(reader, trunk);
  const std::string topk_method = reader.word({"topk_method"}, method);
  if (topk_method != "greedy" && topk_method != "group_limited_greedy" && topk_method != "noaux_tc") {
    reader.problem("topk_method",
                   fmt::format("'topk_method' = \"{}\" is not understood: experts may have a bias "
                               "for it",
                               topk_method));
  }
  const ExpertMlp experts = readExperts(reader, model, topk_method == "noaux_tc");
  readRouting(reader, model, scoring, renormalize);
  refuseSwitchedOn(reader, {"mlp_bias"});
  reader.ignore({"aux_loss_alpha", "seq_aux", "ep_size", "rope_interleave"});
  model.architecture.groups = buildDeepSeekLayers(reader, trunk, attention, experts);
  readMtp(reader, model, attention, experts);
}

void readDeepSeekV2(ConfigReader &reader, Model &model) {
  readDeepSeek(reader, model, "greedy", "softmax", false);
}

void readDeepSeekV3(ConfigReader &reader, Model &model) {
  readDeepSeek(reader, model, "noaux_tc", "sigmoid", true);
}

void readGlm4Moe(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model, {.norm_eps = 1e-5});
  budget::GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  setBias(attention, reader.flag({"attention_bias"}, false), false);
  attention.qk_norm = reader.flag({"use_qk_norm"}, false) ? spec::QkNorm::per_head : spec::QkNorm::none;
  const ExpertMlp experts = readExperts(reader, model, true);
  readRouting(reader, model, "sigmoid", true);
  if (!reader.has({"partial_rotary_factor"})) {
    beyondSpec(model, "RoPE over half of each head");
    model.rotary_part = 0.5;
  }
  model.architecture.groups = buildDeepSeekLayers(reader, trunk, attention, experts);
  readMtp(reader, model, attention, experts);
}

} // namespace

std::span<const Family> deepSeekFamilies() {
  static constexpr Family families[] = {{"deepseek_v2", readDeepSeekV2},
                                        {"deepseek_v3", readDeepSeekV3},
                                        {"kimi_k2", readDeepSeekV3},
                                        {"glm4_moe", readGlm4Moe}};
  return families;
}

} // namespace smelt::hf
