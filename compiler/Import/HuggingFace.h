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
};

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

// The model_type values that parseConfig() reads.
std::vector<std::string_view> modelTypes();

// A valid spec that computes what the model computes, or all that it would have to leave out.
struct SpecConversion {
  std::optional<spec::ModelSpec> spec;
  std::vector<std::string> inexpressible;
};
SpecConversion toSpec(const Model &model);

} // namespace smelt::hf
