// Mixtures of experts in every layer: Mixtral, OLMoE, Granite, Phi-MoE, gpt-oss; and Llama-4.
#include "compiler/Import/HuggingFaceFamily.h"

#include <algorithm>
#include <cmath>

namespace smelt::hf {
namespace {

using budget::ExpertMlp;
using budget::GroupedAttention;
using budget::Layer;
using budget::Reach;

ExpertMlp readExperts(ConfigReader &reader, Key experts) {
  ExpertMlp mlp{.experts = reader.size(experts),
                .top_k = reader.size({"num_experts_per_tok", "experts_per_token"}),
                .width = reader.size({"intermediate_size"})};
  checkTopK(reader, mlp);
  return mlp;
}

// On all four projections, as `attention_bias` says.
void readBias(ConfigReader &reader, GroupedAttention &attention, bool missing = false) {
  const bool bias = reader.flag({"attention_bias"}, missing);
  setBias(attention, bias, bias);
}

void readMixtral(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model, {.norm_eps = 1e-5, .rope_theta = 1e6});
  Layer layer{.attention = groupedAttention(trunk, readHeadDim(reader, trunk)),
              .ffn = readExperts(reader, {"num_local_experts", "num_experts"})};
  const auto window = reader.optionalSize({"sliding_window"});
  setReach(layer, window ? Reach::sliding : Reach::full, window.value_or(0), readLongest(reader));
  model.architecture.groups = {{.layer = layer, .layers = trunk.layers}};
}

void readOlmoe(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model, {.norm_eps = 1e-5});
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  readBias(reader, attention);
  attention.qk_norm = spec::QkNorm::full_width;
  model.renormalize = reader.flag({"norm_topk_prob"}, false);
  if (reader.has({"clip_qkv"})) {
    beyondSpec(model, "clipped Q, K and V (clip_qkv)");
  }
  model.architecture.groups = {
      {.layer = {.attention = attention, .ffn = readExperts(reader, {"num_experts", "num_local_experts"})},
       .layers = trunk.layers}};
}

void readGranite(ConfigReader &reader, Model &model, int64_t shared_width) {
  const Trunk trunk = readTrunk(reader, model);
  const int64_t head_dim = readHeadDim(reader, trunk);
  GroupedAttention attention = groupedAttention(trunk, head_dim);
  readBias(reader, attention);
  ExpertMlp mlp = readExperts(reader, {"num_local_experts", "num_experts"});
  mlp.shared_width = shared_width;
  for (std::string_view key : {"embedding_multiplier", "logits_scaling", "residual_multiplier"}) {
    beyondUnless(reader, model, key, 1.0);
  }
  if (reader.number({"attention_multiplier"}, 1.0) != 1 / std::sqrt(static_cast<double>(head_dim))) {
    beyondSpec(model, "an attention scale other than 1 / sqrt(head_dim) (attention_multiplier)");
  }
  model.architecture.groups = {{.layer = {.attention = attention, .ffn = mlp}, .layers = trunk.layers}};
}

void readGraniteMoe(ConfigReader &reader, Model &model) { readGranite(reader, model, 0); }

void readGraniteMoeShared(ConfigReader &reader, Model &model) {
  readGranite(reader, model, reader.count({"shared_intermediate_size"}, 1024));
}

void readPhiMoe(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model, {.norm_eps = 1e-5, .rope_theta = 1e6});
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  readBias(reader, attention);
  model.architecture.head_bias = reader.flag({"lm_head_bias"}, false);
  model.architecture.final_norm_vectors = 2; // LayerNorm: weight and bias
  reader.ignore({"original_max_position_embeddings"});
  beyondSpec(model, "LayerNorm instead of RMSNorm");
  beyondSpec(model, "sparse-mixer routing");
  Layer layer{.attention = attention,
              .ffn = readExperts(reader, {"num_local_experts", "num_experts"}),
              .norm_vectors = 4};
  const auto window = reader.optionalSize({"sliding_window"});
  setReach(layer, window ? Reach::sliding : Reach::full, window.value_or(0), readLongest(reader));
  model.architecture.groups = {{.layer = layer, .layers = trunk.layers}};
}

void readGptOss(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model, {.norm_eps = 1e-5, .rope_theta = 150000});
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk, 64));
  readBias(reader, attention, true);
  attention.sinks = true;
  ExpertMlp mlp = readExperts(reader, {"num_local_experts", "num_experts"});
  mlp.bias = mlp.router_bias = true;
  const auto window = reader.optionalSize({"sliding_window"});
  const int64_t longest = readLongest(reader);
  const auto types = readLayerTypes(reader, trunk.layers, false, [](int64_t i) {
    return LayerType{.reach = i % 2 == 0 ? Reach::sliding : Reach::full};
  });
  reader.ignore({"swiglu_limit", "swiglu_alpha", "initial_context_length"});
  beyondSpec(model, "a clamped SwiGLU");
  model.architecture.groups = buildLayers(trunk.layers, [&](int64_t i) {
    Layer layer{.attention = attention, .ffn = mlp};
    setReach(layer, types[static_cast<size_t>(i)].reach, window.value_or(0), longest);
    return layer;
  });
}

// Which layers are mixtures: listed, or every step-th beginning with step - 1.
std::vector<bool> llama4MoeLayers(ConfigReader &reader, int64_t layers) {
  std::vector<bool> moe(static_cast<size_t>(layers));
  const int64_t step = reader.size({"interleave_moe_layer_step"}, 1);
  const auto listed = reader.counts({"moe_layers"});
  for (int64_t i = 0; i < layers; ++i) {
    moe[static_cast<size_t>(i)] =
        listed ? std::find(listed->begin(), listed->end(), i) != listed->end() : (i + 1) % step == 0;
  }
  return moe;
}

// Layers with RoPE attend within chunks. An empty list is none, as in the class.
std::vector<LayerType> llama4LayerTypes(ConfigReader &reader, int64_t layers) {
  const int64_t interval = reader.size({"no_rope_layer_interval"}, 4);
  auto rope = reader.counts({"no_rope_layers"});
  if (rope && !rope->empty() && static_cast<int64_t>(rope->size()) < layers) {
    reader.problem("no_rope_layers", "'no_rope_layers' has fewer entries than 'num_hidden_layers'");
    rope.reset();
  }
  return readLayerTypes(reader, layers, false, [&](int64_t i) {
    const bool has_rope =
        rope && !rope->empty() ? (*rope)[static_cast<size_t>(i)] != 0 : (i + 1) % interval != 0;
    return LayerType{.reach = has_rope ? Reach::chunked : Reach::full};
  });
}

void readLlama4(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model, {.norm_eps = 1e-5, .rope_theta = 500000});
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk, 128));
  readBias(reader, attention);
  ExpertMlp experts = readExperts(reader, {"num_local_experts", "num_experts"});
  experts.shared_width = experts.width;
  model.equal_shared = 1;
  const std::vector<bool> moe = llama4MoeLayers(reader, trunk.layers);
  const bool all_moe = std::find(moe.begin(), moe.end(), false) == moe.end();
  const budget::DenseMlp dense{.width = all_moe ? reader.size({"intermediate_size_mlp"}, 16384)
                                                : reader.size({"intermediate_size_mlp"})};
  const auto types = llama4LayerTypes(reader, trunk.layers);
  const bool chunks = reader.has({"attention_chunk_size"}) || !reader.given("attention_chunk_size");
  const int64_t chunk = chunks ? reader.size({"attention_chunk_size"}, 8192) : 0;
  const int64_t longest = readLongest(reader);
  reader.ignore(
      {"use_qk_norm", "attn_temperature_tuning", "floor_scale", "attn_scale", "for_llm_compressor"});
  beyondSpec(model, "experts whose inputs are scaled by the router");
  beyondSpec(model, "layers without RoPE");
  model.architecture.groups = buildLayers(trunk.layers, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    Layer layer{.attention = attention};
    if (moe[at]) {
      layer.ffn = experts;
    } else {
      layer.ffn = dense;
    }
    setReach(layer, types[at].reach, chunk, longest);
    return layer;
  });
}

} // namespace

std::span<const Family> mixtralFamilies() {
  static constexpr Family families[] = {
      {"mixtral", readMixtral},       {"olmoe", readOlmoe},
      {"granitemoe", readGraniteMoe}, {"granitemoeshared", readGraniteMoeShared},
      {"phimoe", readPhiMoe},         {"gpt_oss", readGptOss},
      {"llama4_text", readLlama4}};
  return families;
}

} // namespace smelt::hf
