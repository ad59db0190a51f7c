// Layers of specs that no published family computes: sigmoid routers, shared experts without a gate, ... Only
// smeltc writes such files, of loops.
#include "compiler/Import/HuggingFaceFamily.h"

#include "compiler/Spec/SpecNames.h"

#include <algorithm>
#include <fmt/format.h>

namespace smelt::hf {
namespace {

using budget::DenseMlp;
using budget::ExpertMlp;
using budget::GroupedAttention;
using budget::Layer;

GroupedAttention readAttention(ConfigReader &reader, const Trunk &trunk) {
  GroupedAttention attention = groupedAttention(trunk, reader.size({"head_dim"}));
  setBias(attention, reader.flag({"attention_bias"}, false), false);
  const std::string norm = reader.word({"qk_norm"}, spec::toString(spec::QkNorm::none));
  if (const auto known = spec::fromString<spec::QkNorm>(norm)) {
    attention.qk_norm = *known;
  } else {
    reader.problem("qk_norm",
                   fmt::format("'qk_norm' = \"{}\" must be \"none\", \"per_head\" or \"full_width\"", norm));
  }
  return attention;
}

ExpertMlp readExperts(ConfigReader &reader, Model &model) {
  ExpertMlp mlp{.experts = reader.size({"num_experts"}),
                .top_k = reader.size({"num_experts_per_tok"}),
                .width = reader.size({"moe_intermediate_size"}),
                .shared_width = reader.count({"shared_expert_intermediate_size"}, 0)};
  checkTopK(reader, mlp);
  model.renormalize = reader.flag({"norm_topk_prob"}, true);
  return mlp;
}

} // namespace

void readOwnLayers(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  const GroupedAttention attention = readAttention(reader, trunk);
  if (!reader.has({"num_experts"})) {
    const DenseMlp mlp{.width = reader.size({"intermediate_size"})};
    model.architecture.groups = {{.layer = {.attention = attention, .ffn = mlp}, .layers = trunk.layers}};
    return;
  }
  const ExpertMlp experts = readExperts(reader, model);
  const DenseMlp mlp{.width = reader.size({"intermediate_size"}, 1)};
  const std::vector<int64_t> dense = reader.counts({"mlp_only_layers"}).value_or(std::vector<int64_t>());
  model.architecture.groups = buildLayers(trunk.layers, [&](int64_t i) {
    Layer layer{.attention = attention, .ffn = experts};
    if (std::find(dense.begin(), dense.end(), i) != dense.end()) {
      layer.ffn = mlp;
    }
    return layer;
  });
}

} // namespace smelt::hf
