#include "compiler/Planner/Baseline.h"

#include <algorithm>
#include <fmt/format.h>

namespace smelt::planner {
namespace {

using budget::ExpertMlp;
using budget::GroupedAttention;
using budget::LayerGroup;

// Whether two layers have the same heads; those of linear attention are not the matcher's to choose.
bool sameHeads(const budget::Attention &a, const budget::Attention &b) {
  if (const auto *first = std::get_if<GroupedAttention>(&a)) {
    const auto *second = std::get_if<GroupedAttention>(&b);
    return second && first->query_heads == second->query_heads && first->kv_heads == second->kv_heads &&
           first->head_dim == second->head_dim;
  }
  return a == b;
}

std::string checkSegments(const spec::ModelSpec &spec) {
  for (size_t i = 0; i < spec.segments.size(); ++i) {
    const spec::Attention &attention = spec.segments[i].attention;
    if (attention.query_heads != spec.attention.query_heads ||
        attention.kv_heads != spec.attention.kv_heads || attention.head_dim != spec.attention.head_dim) {
      return fmt::format(
          "segment {} overrides the heads of [attention]: the matcher starts from one geometry for all "
          "layers; remove the override",
          i + 1);
    }
  }
  return "";
}

// What the matcher sets for all layers must be one in all.
std::string checkLayers(const Baseline &baseline) {
  const budget::Attention *heads = nullptr;
  int64_t first = 0;
  for (const LayerGroup &group : baseline.architecture.groups) {
    const budget::Attention &attention = group.layer.attention;
    const auto *experts = std::get_if<ExpertMlp>(&group.layer.ffn);
    const auto *mlp = std::get_if<budget::DenseMlp>(&group.layer.ffn);
    if (!std::holds_alternative<budget::LinearAttention>(attention)) {
      heads = heads ? heads : &attention;
      if (!sameHeads(*heads, attention)) {
        return fmt::format("layer {} has other heads than those before it: the matcher starts from one "
                           "geometry for all layers",
                           first);
      }
    }
    if ((experts && *experts != *baseline.experts()) || (mlp && mlp->width != baseline.denseWidth())) {
      return fmt::format("layer {} has a feed-forward network of other sizes than those of its kind before "
                         "it: the matcher starts from one for all layers",
                         first);
    }
    first += group.layers;
  }
  return heads ? "" : "the baseline caches nothing for a token: there is no KV cache to match";
}

} // namespace

Baseline::Baseline(spec::ModelSpec model)
    : architecture(budget::architectureOf(model)), spec(std::move(model)),
      shared_experts(spec->moe ? std::max<int64_t>(1, spec->moe->shared_experts) : 1) {}

const ExpertMlp *Baseline::experts() const {
  for (const LayerGroup &group : architecture.groups) {
    if (const auto *experts = std::get_if<ExpertMlp>(&group.layer.ffn)) {
      return experts;
    }
  }
  return nullptr;
}

int64_t Baseline::denseWidth() const {
  for (const LayerGroup &group : architecture.groups) {
    if (const auto *mlp = std::get_if<budget::DenseMlp>(&group.layer.ffn)) {
      return mlp->width;
    }
  }
  return 0;
}

std::string checkUnlooped(const budget::Architecture &architecture) {
  for (const LayerGroup &group : architecture.groups) {
    if (group.visits != 1 || group.looped) {
      return fmt::format("the baseline already loops: {} of its layers have {} visits; start from a model "
                         "without loops",
                         group.layers, group.visits);
    }
  }
  return "";
}

std::string checkBaseline(const Baseline &baseline) {
  if (!baseline.experts()) {
    return "the baseline has no layers with experts: without them, parameters and FLOPs cannot be matched "
           "apart; start from an MoE model";
  }
  if (!baseline.architecture.adapters.empty()) {
    return fmt::format("the baseline has an {} between its layers: how its size follows the others' is not "
                       "known; start from a model without one",
                       baseline.architecture.adapters.front().name);
  }
  if (const std::string error =
          baseline.spec ? checkSegments(*baseline.spec) : checkUnlooped(baseline.architecture);
      !error.empty()) {
    return error;
  }
  return checkLayers(baseline);
}

} // namespace smelt::planner
