// Reading a model that a command was given as a spec or as a Hugging Face config.
#pragma once

#include "compiler/Budget/Context.h"
#include "compiler/Import/HuggingFace.h"
#include "compiler/Planner/Baseline.h"
#include "compiler/Report/AccountReport.h"

#include <optional>
#include <string>

namespace smelt::driver {

// Whether the path names a config: it ends in ".json".
bool isConfig(const std::string &path);

// Throws UserError with every problem the file has.
hf::Model loadConfig(const std::string &path);

// The spec of a config that says nothing beyond specs; otherwise throws UserError(SMELT_unsupported) with all
// that it would have to leave out.
spec::ModelSpec convertConfig(const hf::Model &model, const std::string &path);

// What the matcher starts from: any spec or config. `config` where it was one.
struct BaselineInput {
  planner::Baseline baseline;
  std::optional<hf::Model> config = std::nullopt;
};
BaselineInput loadBaseline(const std::string &path);

// A spec or a config, counted. Throws UserError.
report::CountedModel loadCounted(const std::string &path, const budget::Context &context);

} // namespace smelt::driver
