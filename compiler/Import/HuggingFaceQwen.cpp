// Qwen's mixtures of experts: Qwen2-MoE, Qwen3-MoE, Qwen3-Next.
#include "compiler/Import/HuggingFaceFamily.h"

#include <algorithm>

namespace smelt::hf {
namespace {

using budget::DenseMlp;
using budget::ExpertMlp;
using budget::GroupedAttention;
using budget::Layer;
using budget::Reach;

// The FFN of each layer: a mixture when (i + 1) is a multiple of the step and the layer is not listed as
// dense.
class QwenFfn {
public:
  QwenFfn(ConfigReader &reader, int64_t layers, bool has_shared) : moe(static_cast<size_t>(layers)) {
    experts.experts = reader.size({"num_experts", "num_local_experts"});
    experts.top_k = reader.size({"num_experts_per_tok"});
    experts.width = reader.size({"moe_intermediate_size"});
    checkTopK(reader, experts);
    if (has_shared) {
      experts.shared_width = reader.size({"shared_expert_intermediate_size"});
      experts.shared_gate = true;
    }
    const int64_t step = reader.size({"decoder_sparse_step"}, 1);
    const auto listed = reader.counts({"mlp_only_layers"}).value_or(std::vector<int64_t>());
    for (int64_t i = 0; i < layers; ++i) {
      moe[static_cast<size_t>(i)] =
          (i + 1) % step == 0 && std::find(listed.begin(), listed.end(), i) == listed.end();
    }
    const bool any_dense = std::find(moe.begin(), moe.end(), false) != moe.end();
    // Given even where no layer is dense.
    dense.width = any_dense ? reader.size({"intermediate_size"}) : reader.size({"intermediate_size"}, 1);
  }

  void set(Layer &layer, int64_t index) const {
    if (moe[static_cast<size_t>(index)]) {
      layer.ffn = experts;
    } else {
      layer.ffn = dense;
    }
  }

private:
  std::vector<bool> moe;
  ExpertMlp experts;
  DenseMlp dense;
};

void readQwen2Moe(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  setBias(attention, reader.flag({"qkv_bias"}, true), false);
  const QwenFfn ffn(reader, trunk.layers, true);
  model.renormalize = reader.flag({"norm_topk_prob"}, false);
  const bool windows = reader.flag({"use_sliding_window"}, false);
  const int64_t window = reader.size({"sliding_window"}, 4096);
  const int64_t window_layers = reader.count({"max_window_layers"}, 28);
  const int64_t longest = readLongest(reader);
  const auto types = readLayerTypes(reader, trunk.layers, false, [&](int64_t i) {
    return LayerType{.reach = windows && i % 2 == 0 && i < window_layers ? Reach::sliding : Reach::full};
  });
  model.architecture.groups = buildLayers(trunk.layers, [&](int64_t i) {
    Layer layer{.attention = attention};
    ffn.set(layer, i);
    setReach(layer, windows ? types[static_cast<size_t>(i)].reach : Reach::full, window, longest);
    return layer;
  });
}

void readQwen3Moe(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  const bool bias = reader.flag({"attention_bias"}, false);
  setBias(attention, bias, bias);
  attention.qk_norm = spec::QkNorm::per_head;
  const QwenFfn ffn(reader, trunk.layers, false);
  model.renormalize = reader.flag({"norm_topk_prob"}, false);
  const bool windows = reader.flag({"use_sliding_window"}, false);
  const int64_t window = reader.size({"sliding_window"}, 4096);
  const int64_t longest = readLongest(reader);
  reader.ignore({"max_window_layers"}); // of the class it grew from; not used
  model.architecture.groups = buildLayers(trunk.layers, [&](int64_t i) {
    Layer layer{.attention = attention};
    ffn.set(layer, i);
    setReach(layer, windows ? Reach::sliding : Reach::full, window, longest);
    return layer;
  });
}

void readQwen3Next(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk, 256));
  const bool bias = reader.flag({"attention_bias"}, false);
  setBias(attention, bias, bias);
  attention.qk_norm = spec::QkNorm::per_head;
  attention.output_gate = true;
  const budget::LinearAttention linear{.key_heads = reader.size({"linear_num_key_heads"}, 16),
                                       .value_heads = reader.size({"linear_num_value_heads"}, 32),
                                       .key_dim = reader.size({"linear_key_head_dim"}, 128),
                                       .value_dim = reader.size({"linear_value_head_dim"}, 128),
                                       .conv_kernel = reader.size({"linear_conv_kernel_dim"}, 4)};
  const QwenFfn ffn(reader, trunk.layers, true);
  model.renormalize = reader.flag({"norm_topk_prob"}, true);
  if (!reader.has({"partial_rotary_factor", "rope_parameters"})) {
    model.rotary_part = 0.25; // the class's
  }
  const int64_t interval = reader.size({"full_attention_interval"}, 4);
  const auto types = readLayerTypes(reader, trunk.layers, true,
                                    [&](int64_t i) { return LayerType{.linear = (i + 1) % interval != 0}; });
  // Accepted because files of the family carry them from Qwen3-MoE; its attention has no windows.
  reader.ignore({"use_sliding_window", "sliding_window", "max_window_layers"});
  model.notes.emplace_back("FLOPs leave out the recurrence of the linear attention layers");
  model.architecture.groups = buildLayers(trunk.layers, [&](int64_t i) {
    Layer layer{.attention = attention};
    const LayerType &type = types[static_cast<size_t>(i)];
    if (type.linear) {
      layer.attention = linear;
    } else if (type.reach != Reach::full) {
      reader.problem("layer_types", "'layer_types' has windows, which this family does not");
    }
    ffn.set(layer, i);
    return layer;
  });
}

} // namespace

std::span<const Family> qwenMoeFamilies() {
  static constexpr Family families[] = {{"qwen2_moe", readQwen2Moe},
                                        {"qwen3_moe", readQwen3Moe},
                                        {"qwen3_vl_moe_text", readQwen3Moe},
                                        {"qwen3_next", readQwen3Next}};
  return families;
}

} // namespace smelt::hf
