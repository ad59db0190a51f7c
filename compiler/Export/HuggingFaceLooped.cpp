// config.json of a looped model that no spec can express: the file of its baseline with other sizes.
#include "compiler/Export/ExportFormats.h"

#include "compiler/Spec/SpecNames.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::exporting {
namespace {

using nlohmann::ordered_json;
using planner::Candidate;
using Names = std::initializer_list<std::string_view>;

// What a family calls the sizes that the matcher chooses; "" for those it has no key for.
struct SizeKeys {
  std::string_view hidden = "hidden_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";
  std::string_view width = "intermediate_size"; // of an expert
  std::string_view dense_width = "";
  std::string_view shared_width = "";
  bool width_of_all_used = false; // the experts of a token together
};

constexpr SizeKeys kOwnExpertWidth{.width = "moe_intermediate_size", .dense_width = "intermediate_size"};
constexpr SizeKeys kGatedShared{.width = "moe_intermediate_size",
                                .dense_width = "intermediate_size",
                                .shared_width = "shared_expert_intermediate_size"};

SizeKeys keysOf(std::string_view type) {
  constexpr std::pair<std::string_view, SizeKeys> families[] = {
      {"deepseek_v2", kOwnExpertWidth},
      {"deepseek_v3", kOwnExpertWidth},
      {"kimi_k2", kOwnExpertWidth},
      {"glm4_moe", kOwnExpertWidth},
      {"qwen3_moe", kOwnExpertWidth},
      {"qwen2_moe", kGatedShared},
      {"qwen3_next", kGatedShared},
      {"granitemoeshared", {.shared_width = "shared_intermediate_size"}},
      {"llama4_text", {.dense_width = "intermediate_size_mlp"}},
      {"loop-lm",
       {.hidden = "d_model",
        .layers = "num_layers",
        .heads = "num_heads",
        .kv_heads = "",
        .width = "d_ff",
        .width_of_all_used = true}},
  };
  for (const auto &[name, keys] : families) {
    if (name == type) {
      return keys;
    }
  }
  return {};
}

// Under every spelling that the file has, or the first.
void setSize(ordered_json &config, Names names, int64_t value) {
  bool found = false;
  for (const std::string_view name : names) {
    const auto entry = config.find(std::string(name));
    if (entry != config.end() && !entry->is_null()) {
      *entry = value;
      found = true;
    }
  }
  if (!found && !names.begin()->empty()) {
    config[std::string(*names.begin())] = value;
  }
}

void setAttention(ordered_json &config, const SizeKeys &keys, const planner::Shape &shape) {
  setSize(config, {keys.heads}, shape.query_heads);
  if (shape.kv_rank > 0) {
    setSize(config, {keys.kv_heads}, shape.query_heads); // every head has keys and values of its own
    setSize(config, {"kv_lora_rank"}, shape.kv_rank);
  } else {
    setSize(config, {keys.kv_heads}, shape.kv_heads);
    setSize(config, {keys.head_dim}, shape.head_dim);
  }
}

void setFfn(ordered_json &config, const SizeKeys &keys, const Candidate &candidate) {
  const planner::Shape &shape = candidate.shape;
  const bool loop_lm = keys.width_of_all_used;
  if (loop_lm) {
    setSize(config, {"num_experts"}, shape.experts);
    setSize(config, {"num_active"}, shape.top_k);
  } else {
    setSize(config, {"num_experts", "num_local_experts", "n_routed_experts"}, shape.experts);
    setSize(config, {"num_experts_per_tok", "experts_per_token"}, shape.top_k);
  }
  for (const budget::LayerGroup &group : candidate.architecture.groups) {
    if (const auto *dense = std::get_if<budget::DenseMlp>(&group.layer.ffn)) {
      setSize(config, {keys.dense_width}, dense->width);
    } else if (!keys.shared_width.empty()) {
      setSize(config, {keys.shared_width}, std::get<budget::ExpertMlp>(group.layer.ffn).shared_width);
    }
  }
  setSize(config, {keys.width}, shape.expert_hidden_size * (loop_lm ? shape.top_k : 1));
}

// Alike layers can be more or fewer.
void setLayers(ordered_json &config, const SizeKeys &keys, const Candidate &candidate) {
  const int64_t layers = planner::physicalLayers(candidate.architecture);
  setSize(config, {keys.layers}, layers);
  const auto types = config.find("layer_types");
  if (types != config.end() && types->is_array() && !types->empty() &&
      types->size() != static_cast<size_t>(layers)) {
    *types = ordered_json(static_cast<size_t>(layers), types->front());
  }
}

struct Segment {
  spec::Segment loop;
  const budget::LayerGroup *cached = nullptr; // one with a cache, if any
};

std::vector<Segment> segmentsOf(const budget::Architecture &architecture) {
  std::vector<Segment> segments;
  for (const budget::LayerGroup &group : architecture.groups) {
    if (segments.empty() || segments.back().loop.visits != group.visits) {
      segments.push_back(
          {.loop = {.visits = group.visits, .residual_scale = 1.0 / static_cast<double>(group.visits)}});
    }
    segments.back().loop.layers += group.layers;
    if (!std::holds_alternative<budget::LinearAttention>(group.layer.attention)) {
      segments.back().cached = &group;
    }
  }
  return segments;
}

ordered_json segmentJson(const Segment &segment, const SizeKeys &keys) {
  ordered_json json = {{"layers", segment.loop.layers},
                       {"visits", segment.loop.visits},
                       {"order", spec::toString(segment.loop.order)},
                       {"residual_scale", segment.loop.residual_scale},
                       {"kv_cache", spec::toString(segment.loop.kv_cache)}};
  if (!segment.cached) {
    return json;
  }
  if (const auto *latent = std::get_if<budget::LatentAttention>(&segment.cached->layer.attention)) {
    json["kv_lora_rank"] = latent->kv_rank;
  } else if (const auto *grouped = std::get_if<budget::GroupedAttention>(&segment.cached->layer.attention);
             grouped && !keys.kv_heads.empty()) {
    json[std::string(keys.kv_heads)] = grouped->kv_heads;
  }
  return json;
}

std::vector<std::string> notesOf(const std::vector<Segment> &segments, const planner::Shape &shape) {
  std::vector<std::string> notes;
  int64_t first = 0;
  for (const Segment &segment : segments) {
    const std::vector<std::string> loop = loopNotes(first, segment.loop);
    notes.insert(notes.end(), loop.begin(), loop.end());
    if (segment.loop.visits > 1 && shape.looped_kv_heads + shape.looped_kv_rank > 0) {
      notes.push_back(fmt::format("{} have {} {}", layersText(first, segment.loop.layers),
                                  shape.looped_kv_rank > 0 ? "KV rank" : "KV heads",
                                  shape.looped_kv_heads + shape.looped_kv_rank));
    }
    first += segment.loop.layers;
  }
  return notes;
}

// Runs of alike layers, however they were cut.
std::vector<budget::LayerGroup> mergedGroups(const budget::Architecture &architecture) {
  std::vector<budget::LayerGroup> groups;
  for (const budget::LayerGroup &group : architecture.groups) {
    if (!groups.empty() && groups.back().layer == group.layer && groups.back().visits == group.visits) {
      groups.back().layers += group.layers;
    } else {
      groups.push_back(group);
    }
  }
  return groups;
}

// Where a config, read back, is another model than it was written for; "" when it is not.
std::string readBack(const std::string &text, const budget::Architecture &written) {
  const hf::ModelResult result = hf::parseConfig(text, "config.json", written.name);
  if (!result) {
    return "read back, it has problems:\n" + result.diagnostics.text();
  }
  budget::Architecture read = result.model->architecture;
  budget::Architecture expected = written;
  read.groups = mergedGroups(read);
  expected.groups = mergedGroups(expected);
  if (read == expected) {
    return "";
  }
  int64_t first = 0;
  for (size_t i = 0; i < std::min(read.groups.size(), expected.groups.size()); ++i) {
    if (!(read.groups[i] == expected.groups[i])) {
      return fmt::format("{} would come out with other sizes", layersText(first, expected.groups[i].layers));
    }
    first += expected.groups[i].layers;
  }
  return "sizes outside its layers would come out otherwise";
}

} // namespace

ExportResult exportLooped(const hf::Model &baseline, const Candidate &candidate) {
  const ordered_json original = ordered_json::parse(baseline.config);
  const SizeKeys keys = keysOf(baseline.model_type);
  const std::vector<Segment> segments = segmentsOf(candidate.architecture);
  ordered_json config;
  config["_comment"] = {kLoopedComment};
  config["_not_expressed"] = notesOf(segments, candidate.shape);
  config["model_type"] = hf::kLoopedType;
  config["base_model_type"] = baseline.model_type;
  for (const auto &[key, value] : original.items()) {
    // What would have a loader run the baseline's code, or belongs to its checkpoint alone.
    if (key != "model_type" && key != "architectures" && key != "auto_map" && key != "quantization_config") {
      config[key] = value;
    }
  }
  setSize(config, {keys.hidden}, candidate.shape.hidden_size);
  setLayers(config, keys, candidate);
  setAttention(config, keys, candidate.shape);
  setFfn(config, keys, candidate);
  config["segments"] = ordered_json::array();
  for (const Segment &segment : segments) {
    config["segments"].push_back(segmentJson(segment, keys));
  }
  const std::string text = config.dump(2) + "\n";
  if (const std::string difference = readBack(text, candidate.architecture); !difference.empty()) {
    return refused(fmt::format("a {} config has no keys for all sizes of {}: {}", baseline.model_type,
                               candidate.architecture.name, difference));
  }
  return {.text = text, .status = SMELT_ok, .error = ""};
}

} // namespace smelt::exporting
