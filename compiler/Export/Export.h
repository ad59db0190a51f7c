// A model in the words of other tools. What those cannot say is said in comments: nothing is dropped in
// silence.
#pragma once

#include "compiler/Import/HuggingFace.h"
#include "compiler/Planner/Planner.h"
#include "compiler/Spec/ModelSpec.h"
#include "smelt/status.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::exporting {

enum class Format {
  huggingface, // config.json
  megatron,    // arguments of Megatron-LM's training scripts, one a line
  torchtitan   // TOML: a job file's [model] and the fields of the model's arguments
};

std::string_view formatName(Format format);
std::optional<Format> parseFormat(std::string_view name);

// SMELT_unsupported when the tool has no model that is near enough for comments to put right.
struct ExportResult {
  std::optional<std::string> text;
  smelt_status status = SMELT_ok;
  std::string error;

  explicit operator bool() const { return text.has_value(); }
};

ExportResult exportSpec(const spec::ModelSpec &spec, Format format);

// A candidate planned from a config, as a config: the keys of the baseline's family with the candidate's
// sizes, whatever else the baseline's file says, and "segments" for the loop. It is read back before it is
// returned; SMELT_unsupported when it is not the candidate, because the family has no key for some size.
ExportResult exportLooped(const hf::Model &baseline, const planner::Candidate &candidate);

// What makes the model more than one stack of layers run once: loops, their residual scale and KV cache,
// heads of segments of their own. One sentence each.
std::vector<std::string> beyondOneStack(const spec::ModelSpec &spec);

} // namespace smelt::exporting
