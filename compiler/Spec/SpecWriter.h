// ModelSpec to TOML.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <string>
#include <string_view>

namespace smelt::spec {

// Canonical TOML text of a valid spec: parseSpec gives back the same ModelSpec, numbers to the last bit.
// `comment` may have several lines; it heads the file.
std::string writeSpec(const ModelSpec &spec, std::string_view comment = "");

} // namespace smelt::spec
