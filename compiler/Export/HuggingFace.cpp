// config.json. A model without loops gets the model_type of the family that computes exactly what it does; a
// looped one gets a model_type of its own, so that no loader runs it as if it had no loop. That file is read
// back before it is returned.
#include "compiler/Export/ExportFormats.h"

#include "compiler/Spec/SpecNames.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace smelt::exporting {
namespace {

using nlohmann::ordered_json;
using spec::ModelSpec;
using spec::QkNorm;
using spec::RouterKind;

// The family whose layers are those of the spec, or why there is none.
struct Family {
  std::string type, architecture;
  std::string error;
};

Family denseFamily(const ModelSpec &spec) {
  const spec::Attention &attention = spec.attention;
  if (attention.qk_norm == QkNorm::per_head && !attention.qkv_bias) {
    return {"qwen3", "Qwen3ForCausalLM", ""};
  }
  if (attention.qk_norm == QkNorm::none) {
    return attention.qkv_bias ? Family{"qwen2", "Qwen2ForCausalLM", ""}
                              : Family{"llama", "LlamaForCausalLM", ""};
  }
  return {"", "", "no dense family has its norms of queries and keys with these biases"};
}

Family moeFamily(const ModelSpec &spec) {
  const spec::Moe &moe = *spec.moe;
  const spec::Attention &attention = spec.attention;
  if (moe.router == RouterKind::sigmoid) {
    return {"", "", "no family of plain attention has a sigmoid router without biases or groups"};
  }
  if (moe.shared_experts > 0) {
    return {"", "", "families of plain attention gate their shared experts, and this model does not"};
  }
  if (attention.qkv_bias) {
    return {"", "", "no family with qkv_bias has experts without a gated shared one"};
  }
  if (attention.qk_norm == QkNorm::per_head) {
    return {"qwen3_moe", "Qwen3MoeForCausalLM", ""};
  }
  if (hasDenseLayers(spec)) {
    return {"", "", "without norms of single heads, no family mixes dense layers and experts"};
  }
  if (attention.qk_norm == QkNorm::full_width) {
    return attention.queryWidth() == spec.hidden_size
               ? Family{"olmoe", "OlmoeForCausalLM", ""}
               : Family{"", "", "OLMoE's query width is its hidden size"};
  }
  return moe.renormalize ? Family{"mixtral", "MixtralForCausalLM", ""}
                         : Family{"", "", "Mixtral renormalizes the weights of the chosen experts"};
}

ordered_json commonKeys(const ModelSpec &spec) {
  ordered_json json;
  json["vocab_size"] = spec.vocab_size;
  json["hidden_size"] = spec.hidden_size;
  json["num_hidden_layers"] = spec.physicalLayers();
  json["num_attention_heads"] = spec.attention.query_heads;
  json["num_key_value_heads"] = spec.attention.kv_heads;
  json["head_dim"] = spec.attention.head_dim;
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = spec.norm_eps;
  json["rope_theta"] = spec.attention.rope_theta;
  json["tie_word_embeddings"] = spec.tie_embeddings;
  return json;
}

void addExperts(ordered_json &json, const ModelSpec &spec, const std::string &type) {
  const spec::Moe &moe = *spec.moe;
  const bool mixtral = type == "mixtral";
  json[mixtral ? "num_local_experts" : "num_experts"] = moe.experts;
  json["num_experts_per_tok"] = moe.top_k;
  if (mixtral || type == "olmoe") {
    json["intermediate_size"] = moe.expert_hidden_size;
  } else {
    json["moe_intermediate_size"] = moe.expert_hidden_size;
    json["intermediate_size"] = spec.mlp ? spec.mlp->hidden_size : moe.expert_hidden_size;
    if (type == "qwen3_moe") {
      json["decoder_sparse_step"] = 1;
    }
    json["mlp_only_layers"] = ordered_json::array();
    const std::vector<int> layers = moeLayers(spec);
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i] == 0) {
        json["mlp_only_layers"].push_back(i);
      }
    }
  }
  if (!mixtral) {
    json["norm_topk_prob"] = moe.renormalize;
  }
  if (moe.shared_experts > 0) {
    json["shared_expert_intermediate_size"] = moe.sharedWidth();
  }
}

// The same model in the words that a config leaves: shared experts are one as wide as all, and every segment
// has its attention, whatever it is written under.
ModelSpec inConfigWords(ModelSpec spec) {
  spec.attention = spec.segments.front().attention;
  if (spec.moe && spec.moe->shared_experts > 0) {
    spec.moe->shared_expert_hidden_size = spec.moe->sharedWidth();
    spec.moe->shared_experts = 1;
  }
  return spec;
}

// What keeps a config, read back, from being the model it was written for: segments with more of their own
// than the heads that they have keys for. "" when it is the same.
std::string readBack(const std::string &text, const ModelSpec &spec) {
  const hf::ModelResult read = hf::parseConfig(text, "config.json", spec.name);
  if (!read) {
    return "read back, it has problems:\n" + read.diagnostics.text();
  }
  const hf::SpecConversion again = hf::toSpec(*read.model);
  if (!again.spec) {
    return fmt::format("read back, it would have {}", fmt::join(again.inexpressible, "; "));
  }
  return again.spec == inConfigWords(spec) ? "" : fmt::format("{}", fmt::join(beyondOneStack(spec), "; "));
}

ordered_json segmentsJson(const ModelSpec &spec) {
  ordered_json segments = ordered_json::array();
  for (const spec::Segment &segment : spec.segments) {
    segments.push_back({{"layers", segment.layers},
                        {"visits", segment.visits},
                        {"order", spec::toString(segment.order)},
                        {"residual_scale", segment.residual_scale},
                        {"kv_cache", spec::toString(segment.kv_cache)},
                        {"ffn", spec::toString(segment.ffn)},
                        {"num_attention_heads", segment.attention.query_heads},
                        {"num_key_value_heads", segment.attention.kv_heads},
                        {"head_dim", segment.attention.head_dim}});
  }
  return segments;
}

} // namespace

ExportResult huggingFaceConfig(const ModelSpec &spec) {
  const std::vector<std::string> beyond = beyondOneStack(spec);
  const Family family = hasMoeLayers(spec) ? moeFamily(spec) : denseFamily(spec);
  if (beyond.empty() && !family.error.empty()) {
    return refused(fmt::format("no Hugging Face family computes what {} does: {}", spec.name, family.error));
  }
  ordered_json json;
  if (beyond.empty()) {
    json["architectures"] = {family.architecture};
    json["model_type"] = family.type;
  } else {
    json["_comment"] = {kLoopedComment};
    json["_not_expressed"] = beyond;
    json["model_type"] = hf::kLoopedType;
    json["base_model_type"] = family.error.empty() ? std::string_view(family.type) : hf::kOwnLayers;
    if (!family.error.empty()) {
      json["_not_expressed"].push_back(family.error);
    }
  }
  json.update(commonKeys(spec));
  if (family.type != "mixtral" && family.type != "qwen2") { // whose biases are fixed
    json["attention_bias"] = spec.attention.qkv_bias;
  }
  if (hasMoeLayers(spec)) {
    addExperts(json, spec, family.type);
  } else {
    json["intermediate_size"] = spec.mlp->hidden_size;
  }
  if (!beyond.empty()) {
    if (spec.moe) {
      json["router"] = spec::toString(spec.moe->router);
    }
    json["qk_norm"] = spec::toString(spec.attention.qk_norm);
    json["segments"] = segmentsJson(spec);
  }
  json["dtype"] = "bfloat16";
  const std::string text = json.dump(2) + "\n";
  if (beyond.empty()) {
    return {.text = text, .status = SMELT_ok, .error = ""};
  }
  if (const std::string difference = readBack(text, spec); !difference.empty()) {
    return refused(fmt::format("a config has no keys for all of {}: {}", spec.name, difference));
  }
  return {.text = text, .status = SMELT_ok, .error = ""};
}

} // namespace smelt::exporting
