// Reading a model that a command was given as a spec or as a Hugging Face config.
#pragma once

#include "compiler/Budget/Context.h"
#include "compiler/Import/HuggingFace.h"
#include "compiler/Report/AccountReport.h"

#include <string>

namespace smelt::driver {

// Whether the path names a config: it ends in ".json".
bool isConfig(const std::string &path);

// Throws UserError with every problem the file has.
hf::Model loadConfig(const std::string &path);

// A spec or a config, counted. Throws UserError.
report::CountedModel loadCounted(const std::string &path, const budget::Context &context);

} // namespace smelt::driver
