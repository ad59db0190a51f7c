// Dense decoders: Llama, Qwen2, Qwen3, Mistral, Gemma 1 to 3.
#include "compiler/Import/HuggingFaceFamily.h"

namespace smelt::hf {
namespace {

using budget::DenseMlp;
using budget::GroupedAttention;
using budget::Layer;
using budget::Reach;

void readLlama(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  const bool bias = reader.flag({"attention_bias"}, false);
  setBias(attention, bias, bias);
  const DenseMlp mlp{.width = reader.size({"intermediate_size"}), .bias = reader.flag({"mlp_bias"}, false)};
  model.architecture.groups = {{.layer = {.attention = attention, .ffn = mlp}, .layers = trunk.layers}};
}

// Qwen2 and Qwen3: windows only when `use_sliding_window`, and then from layer `max_window_layers` on.
void readQwenLayers(ConfigReader &reader, Model &model, const Trunk &trunk,
                    const GroupedAttention &attention) {
  const bool windows = reader.flag({"use_sliding_window"}, false);
  const int64_t window = reader.size({"sliding_window"}, 4096);
  const int64_t full_layers = reader.count({"max_window_layers"}, 28);
  const int64_t longest = readLongest(reader);
  const DenseMlp mlp{.width = reader.size({"intermediate_size"})};
  const auto types = readLayerTypes(reader, trunk.layers, false, [&](int64_t i) {
    return LayerType{.reach = windows && i >= full_layers ? Reach::sliding : Reach::full};
  });
  model.architecture.groups = buildLayers(trunk.layers, [&](int64_t i) {
    Layer layer{.attention = attention, .ffn = mlp};
    // The file's window is in force only when it says so, whatever layer_types says.
    setReach(layer, windows ? types[static_cast<size_t>(i)].reach : Reach::full, window, longest);
    return layer;
  });
}

void readQwen2(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  setBias(attention, true, false);
  readQwenLayers(reader, model, trunk, attention);
}

void readQwen3(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk, 128));
  const bool bias = reader.flag({"attention_bias"}, false);
  setBias(attention, bias, bias);
  attention.qk_norm = spec::QkNorm::per_head;
  readQwenLayers(reader, model, trunk, attention);
}

void readMistral(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  const GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  const DenseMlp mlp{.width = reader.size({"intermediate_size"})};
  // null is no window, a missing key the class's 4096.
  const bool windows = reader.has({"sliding_window"}) || !reader.given("sliding_window");
  const int64_t window = reader.size({"sliding_window"}, 4096);
  Layer layer{.attention = attention, .ffn = mlp};
  setReach(layer, windows ? Reach::sliding : Reach::full, window, readLongest(reader));
  model.architecture.groups = {{.layer = layer, .layers = trunk.layers}};
}

void gemmaIsBeyondSpec(Model &model) {
  beyondSpec(model, "embeddings scaled by the root of the hidden size");
  beyondSpec(model, "norm weights stored as the difference from 1");
}

GroupedAttention readGemmaAttention(ConfigReader &reader, const Trunk &trunk) {
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk, 256));
  const bool bias = reader.flag({"attention_bias"}, false);
  setBias(attention, bias, bias);
  refuseSwitchedOn(reader, {"use_bidirectional_attention"});
  return attention;
}

void readGemma(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model, {.tied = true});
  const GroupedAttention attention = readGemmaAttention(reader, trunk);
  const DenseMlp mlp{.width = reader.size({"intermediate_size"})};
  gemmaIsBeyondSpec(model);
  model.architecture.groups = {{.layer = {.attention = attention, .ffn = mlp}, .layers = trunk.layers}};
}

// Four norms a layer; one layer of every `pattern` attends to everything.
void readGemmaWindows(ConfigReader &reader, Model &model, const Trunk &trunk, GroupedAttention attention,
                      int64_t pattern) {
  const DenseMlp mlp{.width = reader.size({"intermediate_size"})};
  const int64_t window = reader.size({"sliding_window"}, 4096);
  const int64_t longest = readLongest(reader);
  const auto types = readLayerTypes(reader, trunk.layers, false, [&](int64_t i) {
    return LayerType{.reach = (i + 1) % pattern != 0 ? Reach::sliding : Reach::full};
  });
  reader.ignore(
      {"query_pre_attn_scalar", "final_logit_softcapping", "attn_logit_softcapping", "cache_implementation"});
  gemmaIsBeyondSpec(model);
  beyondSpec(model, "four norms a layer");
  model.architecture.groups = buildLayers(trunk.layers, [&](int64_t i) {
    Layer layer{.attention = attention, .ffn = mlp, .norm_vectors = 4};
    setReach(layer, types[static_cast<size_t>(i)].reach, window, longest);
    return layer;
  });
}

void readGemma2(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model, {.tied = true});
  beyondSpec(model, "soft-capped logits");
  readGemmaWindows(reader, model, trunk, readGemmaAttention(reader, trunk), 2);
}

void readGemma3(ConfigReader &reader, Model &model) {
  // The published files of the smaller models leave these three to the class.
  const Trunk trunk = readTrunk(
      reader, model, {.tied = true, .rope_theta = 1e6, .vocab_size = 262208, .heads = 8, .kv_heads = 4});
  GroupedAttention attention = readGemmaAttention(reader, trunk);
  attention.qk_norm = spec::QkNorm::per_head;
  reader.ignore({"rope_local_base_freq", "_sliding_window_pattern"});
  beyondSpec(model, "two RoPE bases");
  readGemmaWindows(reader, model, trunk, attention, reader.size({"sliding_window_pattern"}, 6));
}

} // namespace

std::span<const Family> denseFamilies() {
  static constexpr Family families[] = {
      {"llama", readLlama},     {"qwen2", readQwen2}, {"qwen3", readQwen3},   {"qwen3_vl_text", readQwen3},
      {"mistral", readMistral}, {"gemma", readGemma}, {"gemma2", readGemma2}, {"gemma3_text", readGemma3}};
  return families;
}

} // namespace smelt::hf
