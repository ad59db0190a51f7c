// TOML spec files to ModelSpec. docs/spec.md describes the language.
#pragma once

#include "compiler/Spec/Diagnostics.h"
#include "compiler/Spec/ModelSpec.h"
#include "smelt/status.h"

#include <optional>
#include <string>
#include <string_view>

namespace smelt::spec {

// A valid spec, or every problem found. SMELT_spec: the text is wrong; SMELT_io: the file cannot be read.
struct SpecResult {
  std::optional<ModelSpec> spec;
  Diagnostics diagnostics;
  smelt_status status = SMELT_ok;

  explicit operator bool() const { return spec.has_value(); }
};

// Reads a spec from text; file is the name that diagnostics show.
SpecResult parseSpec(std::string_view text, std::string file);

SpecResult readSpecFile(const std::string &path);

} // namespace smelt::spec
