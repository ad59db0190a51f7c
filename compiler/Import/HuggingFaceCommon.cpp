#include "compiler/Import/HuggingFaceFamily.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::hf {
namespace {

using nlohmann::json;

int64_t sizeOr(ConfigReader &reader, Key key, std::optional<int64_t> missing) {
  return missing ? reader.size(key, *missing) : reader.size(key);
}

// The scaling of one RoPE table: {"rope_type": "yarn", ...}; `type` is the older name.
bool scales(const json &rope) {
  for (const char *key : {"rope_type", "type"}) {
    const auto type = rope.find(key);
    if (type != rope.end() && !type->is_null() && *type != "default") {
      return true;
    }
  }
  return false;
}

void readRopeParameters(ConfigReader &reader, Model &model) {
  const json *parameters = reader.value({"rope_parameters"});
  if (parameters == nullptr) {
    return;
  }
  if (!parameters->is_object()) {
    reader.problem("rope_parameters", "'rope_parameters' must be an object");
    return;
  }
  const auto theta = parameters->find("rope_theta");
  if (theta != parameters->end() && theta->is_number()) {
    model.rope_theta = theta->get<double>();
  }
  const auto partial = parameters->find("partial_rotary_factor");
  if (partial != parameters->end() && *partial != 1 && !partial->is_null()) {
    beyondSpec(model, "RoPE over a part of each head (partial_rotary_factor)");
    model.rotary_part = partial->is_number() ? partial->get<double>() : 1.0;
  }
  if (scales(*parameters) || (!parameters->contains("rope_theta") && !parameters->empty())) {
    beyondSpec(model, "scaled RoPE (rope_parameters)");
  }
}

struct Dtype {
  std::string_view name;
  int64_t bytes;
};
constexpr Dtype kDtypes[] = {{"bfloat16", 2}, {"float16", 2},       {"float32", 4},
                             {"float64", 8},  {"float8_e4m3fn", 1}, {"float8_e5m2", 1}};

} // namespace

void readDtype(ConfigReader &reader, Model &model) {
  std::string name = reader.word({"torch_dtype", "dtype"}, "");
  if (name.starts_with("torch.")) {
    name.erase(0, 6);
  }
  model.dtype_given = !name.empty() && name != "auto";
  model.dtype = model.dtype_given ? name : "bfloat16";
  const auto *known = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                   [&](const Dtype &d) { return d.name == model.dtype; });
  if (known == std::end(kDtypes)) {
    reader.problem("torch_dtype", fmt::format("'torch_dtype' = \"{}\" is not a known data type", name));
    return;
  }
  model.bytes_per_weight = known->bytes;
  if (!model.dtype_given) {
    model.notes.emplace_back("the file has no torch_dtype; bytes assume bfloat16");
  }
  if (reader.has({"quantization_config"})) {
    model.notes.emplace_back(
        "the checkpoint is quantized: counts are of the weights it stands for, without scales");
  }
}

void readRope(ConfigReader &reader, Model &model, double default_theta) {
  model.rope_theta = reader.number({"rope_theta"}, default_theta);
  readRopeParameters(reader, model);
  const json *scaling = reader.value({"rope_scaling"});
  if (scaling != nullptr && !(scaling->is_object() && !scales(*scaling))) {
    beyondSpec(model, "scaled RoPE (rope_scaling)");
  }
  model.rotary_part = reader.number({"partial_rotary_factor"}, model.rotary_part);
  beyondUnless(reader, model, "partial_rotary_factor", 1.0);
}

int64_t readLongest(ConfigReader &reader) {
  return reader.optionalSize({"max_position_embeddings"}).value_or(INT64_MAX);
}

Trunk readTrunk(ConfigReader &reader, Model &model, const TrunkDefaults &defaults) {
  Trunk trunk;
  budget::Architecture &a = model.architecture;
  a.vocab_size = sizeOr(reader, {"vocab_size"}, defaults.vocab_size);
  trunk.hidden = a.hidden_size = reader.size({"hidden_size"});
  trunk.layers = reader.sizeUpTo({"num_hidden_layers"}, ConfigReader::kMaxLayers);
  trunk.heads = sizeOr(reader, {"num_attention_heads"}, defaults.heads);
  trunk.kv_heads = reader.size({"num_key_value_heads"}, defaults.kv_heads.value_or(trunk.heads));
  if (trunk.heads % trunk.kv_heads != 0) {
    reader.problem("num_key_value_heads",
                   fmt::format("'num_attention_heads' = {} is not a multiple of 'num_key_value_heads' = {}",
                               trunk.heads, trunk.kv_heads));
  }
  a.tied = reader.flag({"tie_word_embeddings"}, defaults.tied);
  model.norm_eps = reader.number({"rms_norm_eps"}, defaults.norm_eps);
  readRope(reader, model, defaults.rope_theta);
  readDtype(reader, model);
  readLongest(reader);
  const std::string activation = reader.word({"hidden_act", "hidden_activation"}, "silu");
  if (activation != "silu" && activation != "swish") {
    beyondSpec(model, fmt::format("the activation \"{}\"", activation));
  }
  return trunk;
}

int64_t readHeadDim(ConfigReader &reader, const Trunk &trunk, std::optional<int64_t> missing) {
  if (const auto given = reader.optionalSize({"head_dim"})) {
    return *given;
  }
  if (missing) {
    return *missing;
  }
  if (trunk.hidden % trunk.heads != 0) {
    reader.problem("hidden_size",
                   fmt::format("'hidden_size' = {} is not a multiple of 'num_attention_heads' = {}, and "
                               "there is no 'head_dim'",
                               trunk.hidden, trunk.heads));
  }
  return std::max<int64_t>(1, trunk.hidden / trunk.heads);
}

budget::GroupedAttention groupedAttention(const Trunk &trunk, int64_t head_dim) {
  return {.query_heads = trunk.heads, .kv_heads = trunk.kv_heads, .head_dim = head_dim};
}

void setBias(budget::GroupedAttention &attention, bool qkv, bool output) {
  attention.query_bias = attention.key_bias = attention.value_bias = qkv;
  attention.output_bias = output;
}

void checkTopK(ConfigReader &reader, const budget::ExpertMlp &mlp) {
  if (mlp.top_k > mlp.experts) {
    reader.problem("num_experts_per_tok",
                   fmt::format("'num_experts_per_tok' = {} is more than the {} experts there are", mlp.top_k,
                               mlp.experts));
  }
}

std::vector<LayerType> readLayerTypes(ConfigReader &reader, int64_t layers, bool allow_linear,
                                      const std::function<LayerType(int64_t)> &rule) {
  std::vector<LayerType> result;
  const auto words = reader.words({"layer_types"});
  if (!words) {
    for (int64_t i = 0; i < layers; ++i) {
      result.push_back(rule(i));
    }
    return result;
  }
  for (const std::string &word : *words) {
    if (word == "sliding_attention") {
      result.push_back({.reach = budget::Reach::sliding});
    } else if (word == "chunked_attention") {
      result.push_back({.reach = budget::Reach::chunked});
    } else if (word == "linear_attention" && allow_linear) {
      result.push_back({.linear = true});
    } else {
      result.push_back({});
      if (word != "full_attention") {
        reader.problem("layer_types", fmt::format("'layer_types' has \"{}\", which is not understood", word));
      }
    }
  }
  if (static_cast<int64_t>(result.size()) != layers) {
    reader.problem("layer_types", fmt::format("'layer_types' has {} entries, 'num_hidden_layers' is {}",
                                              result.size(), layers));
    result.resize(static_cast<size_t>(layers));
  }
  return result;
}

void setReach(budget::Layer &layer, budget::Reach reach, int64_t window, int64_t longest) {
  if (reach != budget::Reach::full && window > 0 && window < longest) {
    layer.reach = reach;
    layer.window = window;
  }
}

std::vector<budget::LayerGroup>
buildLayers(int64_t layers, const std::function<budget::Layer(int64_t)> &layer, int64_t visits, bool looped) {
  std::vector<budget::LayerGroup> groups;
  for (int64_t i = 0; i < layers; ++i) {
    budget::appendLayer(groups, layer(i), visits, looped);
  }
  return groups;
}

void beyondSpec(Model &model, std::string what) { model.beyond_spec.push_back(std::move(what)); }

void beyondUnless(ConfigReader &reader, Model &model, std::string_view key, double neutral) {
  const double value = reader.number({key}, neutral);
  if (value != neutral) {
    beyondSpec(model, fmt::format("{} = {}", key, value));
  }
}

void beyondUnless(ConfigReader &reader, Model &model, std::string_view key, bool neutral) {
  if (reader.flag({key}, neutral) != neutral) {
    beyondSpec(model, fmt::format("{} = {}", key, !neutral));
  }
}

void refuseSwitchedOn(ConfigReader &reader, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    const json *value = reader.value({key});
    if (value == nullptr || *value == false || (value->is_number() && *value == 0) ||
        ((value->is_array() || value->is_object() || value->is_string()) && value->size() == 0) ||
        *value == "") {
      continue;
    }
    reader.problem(key, fmt::format("'{}' is on: it changes what is counted and is not understood", key));
  }
}

} // namespace smelt::hf
