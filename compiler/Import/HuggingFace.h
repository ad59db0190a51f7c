// Hugging Face config.json files: what their model counts, and the spec of those that the spec language can
// express. docs/import.md lists the families and how each is read.
#pragma once

#include "compiler/Budget/Architecture.h"
#include "compiler/Spec/Diagnostics.h"
#include "compiler/Spec/ModelSpec.h"
#include "smelt/status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::hf {

// Layers of a looped model that smeltc wrote: `visits` runs of them, with so much of each update added.
struct LoopSegment {
  int64_t layers = 0;
  int64_t visits = 1;
  spec::VisitOrder order = spec::VisitOrder::block;
  double residual_scale = 1.0;

  bool operator==(const LoopSegment &) const = default;
};

struct Model {
  std::string model_type;
  budget::Architecture architecture;
  std::string dtype; // of the checkpoint, as "bfloat16"
  int64_t bytes_per_weight = 2;
  bool dtype_given = false; // otherwise bfloat16 is assumed
  // What the numbers leave out or assume, for people.
  std::vector<std::string> notes = {};

  // What a spec needs besides the architecture.
  double norm_eps = 1e-6;
  double rope_theta = 10000.0;
  spec::RouterKind router = spec::RouterKind::softmax;
  bool renormalize = true;
  // What the file says that no spec can: "hidden_act = \"gelu\"". Empty if toSpec() may succeed.
  std::vector<std::string> beyond_spec = {};

  // What models of other sizes must keep.
  std::string config = {};                // the text model's object: JSON
  int64_t equal_shared = 0;               // shared experts, where they are as wide as routed ones
  int64_t expert_groups = 1;              // that tokens are routed within
  double rotary_part = 1.0;               // of each head that RoPE turns
  std::vector<LoopSegment> segments = {}; // of model_type "smelt_looped"; empty for all others
};

// The type of the looped models that smeltc writes: the keys of `base_model_type` and "segments".
inline constexpr std::string_view kLoopedType = "smelt_looped";
// Their base_model_type when no published family has the layers.
inline constexpr std::string_view kOwnLayers = "smelt_layers";

// A model, or every problem found. SMELT_spec: the file is not a config that is understood in full; SMELT_io:
// it cannot be read.
struct ModelResult {
  std::optional<Model> model;
  spec::Diagnostics diagnostics;
  smelt_status status = SMELT_ok;

  explicit operator bool() const { return model.has_value(); }
};

// Reads a config from text; file is the name that diagnostics show, and `name` becomes the architecture's.
ModelResult parseConfig(std::string_view text, std::string file, std::string name);
ModelResult readConfigFile(const std::string &path);

// The model_type values that parseConfig() reads, wrappers and smeltc's own included.
std::vector<std::string_view> modelTypes();

// A valid spec that computes what the model computes, or all that it would have to leave out.
struct SpecConversion {
  std::optional<spec::ModelSpec> spec;
  std::vector<std::string> inexpressible;
};
SpecConversion toSpec(const Model &model);

} // namespace smelt::hf
