// A law as a JSON file: what `smeltc law fit -o` writes and --law reads. docs/laws.md describes the keys.
#pragma once

#include "compiler/Law/ScalingLaw.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::law {

std::string writeLaw(const ScalingLaw &law);

struct LawResult {
  std::optional<ScalingLaw> law;
  std::vector<std::string> problems; // all of them, each with the key it is about

  explicit operator bool() const { return law.has_value(); }
};

LawResult readLaw(std::string_view text);

} // namespace smelt::law
