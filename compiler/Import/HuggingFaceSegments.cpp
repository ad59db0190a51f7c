// The loops of models that smeltc wrote: layers of a family, cut into segments with visits.
#include "compiler/Import/HuggingFaceFamily.h"

#include "compiler/Spec/SpecNames.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::hf {
namespace {

using budget::GroupedAttention;
using budget::LatentAttention;
using budget::Layer;
using nlohmann::json;

// A word that must be this one.
void require(ConfigReader &reader, std::string_view key, std::string_view word) {
  if (const std::string value = reader.word({key}, word); value != word) {
    reader.problem(key, fmt::format("'{}' is \"{}\" in the segments, but \"{}\" by the model's other keys",
                                    key, value, word));
  }
}

LoopSegment readSegment(ConfigReader &reader) {
  LoopSegment segment{.layers = reader.sizeUpTo({"layers"}, ConfigReader::kMaxLayers)};
  segment.visits = reader.has({"visits"}) ? reader.sizeUpTo({"visits"}, kMaxVisits) : 1;
  segment.residual_scale = reader.number({"residual_scale"}, 1.0 / static_cast<double>(segment.visits));
  if (const std::string order = reader.word({"order"}, "block"); order == "layer") {
    segment.order = spec::VisitOrder::layer;
  } else if (order != "block") {
    reader.problem("order", fmt::format("'order' = \"{}\" must be \"block\" or \"layer\"", order));
  }
  require(reader, "kv_cache", "per_visit");
  return segment;
}

// The heads that the segment's layers have of their own, where it says so.
void setHeads(ConfigReader &reader, Layer &layer) {
  if (auto *grouped = std::get_if<GroupedAttention>(&layer.attention)) {
    grouped->query_heads = reader.size({"num_attention_heads"}, grouped->query_heads);
    grouped->kv_heads = reader.size({"num_key_value_heads"}, grouped->kv_heads);
    grouped->head_dim = reader.size({"head_dim"}, grouped->head_dim);
    if (grouped->query_heads % grouped->kv_heads != 0) {
      reader.problem("num_key_value_heads",
                     fmt::format("'num_attention_heads' = {} is not a multiple of 'num_key_value_heads' = {} "
                                 "in a segment",
                                 grouped->query_heads, grouped->kv_heads));
    }
  } else if (auto *latent = std::get_if<LatentAttention>(&layer.attention)) {
    latent->kv_rank = reader.size({"kv_lora_rank"}, latent->kv_rank);
  }
  require(reader, "ffn",
          std::holds_alternative<budget::DenseMlp>(layer.ffn) ? spec::toString(spec::FfnKind::dense)
                                                              : spec::toString(spec::FfnKind::moe));
}

// Each kind of layer is read once, so that a problem is told once.
Layer withHeads(ConfigReader &reader, const Layer &layer, std::vector<std::pair<Layer, Layer>> &kinds) {
  for (const auto &[original, changed] : kinds) {
    if (original == layer) {
      return changed;
    }
  }
  kinds.emplace_back(layer, layer);
  setHeads(reader, kinds.back().second);
  return kinds.back().second;
}

std::vector<Layer> layersOf(const budget::Architecture &architecture, ConfigReader &reader) {
  std::vector<Layer> layers;
  for (const budget::LayerGroup &group : architecture.groups) {
    if (group.looped || group.visits > 1) {
      reader.problem("base_model_type",
                     "'base_model_type' is of a family that loops: segments would loop twice");
      return {};
    }
    layers.insert(layers.end(), static_cast<size_t>(group.layers), group.layer);
  }
  return layers;
}

// What a file may say again of what its family settles, and the router.
void readRedundantKeys(ConfigReader &reader, Model &model) {
  reader.ignore({"_comment", "_not_expressed", "base_model_type"});
  if (const std::string router = reader.word({"router"}, spec::toString(model.router));
      router == spec::toString(spec::RouterKind::sigmoid)) {
    model.router = spec::RouterKind::sigmoid;
  } else if (router != spec::toString(spec::RouterKind::softmax)) {
    reader.problem("router", fmt::format("'router' = \"{}\" must be \"softmax\" or \"sigmoid\"", router));
  }
  for (const budget::LayerGroup &group : model.architecture.groups) {
    if (const auto *grouped = std::get_if<GroupedAttention>(&group.layer.attention)) {
      require(reader, "qk_norm", spec::toString(grouped->qk_norm));
      break;
    }
  }
}

} // namespace

void readSegments(ConfigReader &reader, Model &model) {
  readRedundantKeys(reader, model);
  const json *list = reader.value({"segments"});
  if (list == nullptr || !list->is_array() || list->empty()) {
    reader.problem("segments", "'segments' must be a list of at least one object");
    return;
  }
  const std::vector<Layer> layers = layersOf(model.architecture, reader);
  std::vector<budget::LayerGroup> groups;
  size_t next = 0;
  for (const json &item : *list) {
    if (!item.is_object()) {
      reader.problem("segments", "'segments' must be a list of objects");
      return;
    }
    ConfigReader inner = reader.within(item);
    const LoopSegment segment = readSegment(inner);
    std::vector<std::pair<Layer, Layer>> kinds; // as the family has them, and with the segment's heads
    for (int64_t i = 0; i < segment.layers && next < layers.size(); ++i, ++next) {
      const Layer layer = withHeads(inner, layers[next], kinds);
      if (i == 0) {
        groups.push_back({.layer = layer, .visits = segment.visits, .looped = segment.visits > 1});
      }
      // A segment begins a group of its own, so that its scale and order stay with it.
      if (groups.back().layer == layer) {
        ++groups.back().layers;
      } else {
        groups.push_back(
            {.layer = layer, .layers = 1, .visits = segment.visits, .looped = segment.visits > 1});
      }
    }
    inner.refuseOthers("a segment");
    model.segments.push_back(segment);
  }
  int64_t total = 0;
  for (const LoopSegment &segment : model.segments) {
    total += segment.layers;
  }
  if (!layers.empty() && total != static_cast<int64_t>(layers.size())) {
    reader.problem("segments",
                   fmt::format("the segments have {} layers, the model {}", total, layers.size()));
  }
  model.architecture.groups = std::move(groups);
}

} // namespace smelt::hf
