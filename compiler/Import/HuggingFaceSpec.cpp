// Imported models as specs.
#include "compiler/Import/HuggingFace.h"
#include "compiler/Spec/SpecValidator.h"

#include <algorithm>
#include <fmt/format.h>

namespace smelt::hf {
namespace {

// Collects what a spec cannot say, each thing once.
class Converter {
public:
  explicit Converter(const Model &model) : model(model) {
    for (const std::string &what : model.beyond_spec) {
      refuse(what);
    }
  }

  SpecConversion convert() {
    const budget::Architecture &a = model.architecture;
    spec.name = a.name;
    spec.vocab_size = a.vocab_size;
    spec.hidden_size = a.hidden_size;
    spec.norm_eps = model.norm_eps;
    spec.tie_embeddings = a.tied;
    refuseIf(a.head_bias, "a bias on the head");
    refuseIf(a.final_norm_vectors != 1, "a final norm other than RMSNorm with a weight");
    refuseIf(a.mtp.has_value(), "multi-token prediction (num_nextn_predict_layers)");
    for (const budget::Adapter &adapter : a.adapters) {
      refuse("the " + adapter.name);
    }
    // Without segments, every group that loops is of the one loop.
    const auto loops = std::count_if(model.segments.begin(), model.segments.end(),
                                     [](const LoopSegment &segment) { return segment.visits > 1; });
    const auto looped = std::count_if(a.groups.begin(), a.groups.end(),
                                      [](const budget::LayerGroup &group) { return group.visits > 1; });
    refuseIf(looped > std::max<int64_t>(1, loops), "a loop over layers of different kinds");
    int64_t first = 0;
    for (const budget::LayerGroup &group : a.groups) {
      addSegment(group, segmentAt(first));
      first += group.layers;
    }
    if (refused.empty()) {
      spec.attention = spec.segments.front().attention;
      for (const spec::Problem &problem : spec::validate(spec)) {
        refuse(problem.message);
      }
    }
    return refused.empty() ? SpecConversion{std::move(spec), {}}
                           : SpecConversion{std::nullopt, std::move(refused)};
  }

private:
  void refuse(std::string what) {
    if (std::find(refused.begin(), refused.end(), what) == refused.end()) {
      refused.push_back(std::move(what));
    }
  }
  void refuseIf(bool condition, std::string what) {
    if (condition) {
      refuse(std::move(what));
    }
  }

  // The segment of a model that smeltc wrote. Other models' loops add their updates in full; a spec's default
  // would scale them.
  LoopSegment segmentAt(int64_t layer) const {
    int64_t end = 0;
    for (const LoopSegment &segment : model.segments) {
      end += segment.layers;
      if (layer < end) {
        return segment;
      }
    }
    return {};
  }

  void addSegment(const budget::LayerGroup &group, const LoopSegment &loop) {
    spec::Segment segment{.layers = group.layers,
                          .visits = group.visits,
                          .order = loop.order,
                          .residual_scale = loop.residual_scale};
    refuseIf(group.layer.reach == budget::Reach::sliding,
             fmt::format("a sliding window of {} positions", group.layer.window));
    refuseIf(group.layer.reach == budget::Reach::chunked,
             fmt::format("attention in chunks of {} positions", group.layer.window));
    refuseIf(group.layer.norm_vectors != 2, fmt::format("{} norm vectors a layer", group.layer.norm_vectors));
    std::visit([&](const auto &attention) { setAttention(attention, segment); }, group.layer.attention);
    std::visit([&](const auto &ffn) { setFfn(ffn, segment); }, group.layer.ffn);
    spec.segments.push_back(segment);
  }

  void setAttention(const budget::GroupedAttention &a, spec::Segment &segment) {
    refuseIf(a.query_bias != a.key_bias || a.query_bias != a.value_bias, "biases on some of Q, K and V only");
    refuseIf(a.output_bias, "a bias on the attention output");
    refuseIf(a.output_gate, "a gate on the attention output");
    refuseIf(a.sinks, "attention sinks");
    segment.attention = {.query_heads = a.query_heads,
                         .kv_heads = a.kv_heads,
                         .head_dim = a.head_dim,
                         .rope_theta = model.rope_theta,
                         .qk_norm = a.qk_norm,
                         .qkv_bias = a.query_bias};
  }
  void setAttention(const budget::LatentAttention &, spec::Segment &) {
    refuse("multi-head latent attention (kv_lora_rank)");
  }
  void setAttention(const budget::LinearAttention &, spec::Segment &) { refuse("linear attention layers"); }

  void setFfn(const budget::DenseMlp &mlp, spec::Segment &segment) {
    segment.ffn = spec::FfnKind::dense;
    refuseIf(mlp.bias, "biases in the dense MLP");
    refuseIf(spec.mlp && spec.mlp->hidden_size != mlp.width, "dense layers of different widths");
    spec.mlp = spec::Mlp{.hidden_size = mlp.width};
  }
  void setFfn(const budget::ExpertMlp &mlp, spec::Segment &segment) {
    segment.ffn = spec::FfnKind::moe;
    refuseIf(mlp.bias, "biases in the experts");
    refuseIf(mlp.router_bias, "a bias on the router");
    refuseIf(mlp.correction_bias, "a correction bias for choosing experts");
    refuseIf(mlp.shared_gate, "a gate on the shared experts");
    // Shared experts are one SwiGLU, however many they are called.
    const spec::Moe moe{.experts = mlp.experts,
                        .top_k = mlp.top_k,
                        .expert_hidden_size = mlp.width,
                        .router = model.router,
                        .renormalize = model.renormalize,
                        .shared_experts = mlp.shared_width > 0 ? 1 : 0,
                        .shared_expert_hidden_size = mlp.shared_width};
    refuseIf(spec.moe && !(*spec.moe == moe), "expert layers of different kinds");
    spec.moe = moe;
  }

  const Model &model;
  spec::ModelSpec spec;
  std::vector<std::string> refused;
};

} // namespace

SpecConversion toSpec(const Model &model) { return Converter(model).convert(); }

} // namespace smelt::hf
