// The same model under the conventions of other tools: training FLOPs per token differ by tens of per cent.
// Each follows its tool's formula; docs/budgets.md states them.
#pragma once

#include "compiler/Budget/Accounting.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::budget {

struct Convention {
  std::string_view name;
  std::string_view definition;
  int64_t training_flops = 0; // per token of a sequence
};

// Sequences of `length` tokens, at most 2^24. Multi-token prediction is left out of all. Nothing when a
// number does not fit 64 bits.
std::optional<std::vector<Convention>> conventions(const Architecture &architecture, int64_t length);
inline constexpr int64_t kMaxConventionLength = int64_t{1} << 24;

} // namespace smelt::budget
