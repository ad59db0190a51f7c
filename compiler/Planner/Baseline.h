// The model that a search starts from.
#pragma once

#include "compiler/Budget/Architecture.h"
#include "compiler/Spec/ModelSpec.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace smelt::planner {

// An unlooped mixture of experts, with what its family says of sizes that go together.
struct Baseline {
  // Every spec is a baseline.
  Baseline(spec::ModelSpec model);
  explicit Baseline(budget::Architecture model) : architecture(std::move(model)) {}

  budget::Architecture architecture;
  // The same model where a spec can say all of it: its candidates are specs, too.
  std::optional<spec::ModelSpec> spec = std::nullopt;
  std::vector<std::string> beyond_spec = {}; // what a spec cannot say; empty where there is one

  int64_t shared_experts = 1;      // of equal width, of which shared_width is the sum
  bool shared_like_routed = false; // each is as wide as a routed expert, whatever that is
  int64_t head_dim_step = 2;       // RoPE turns pairs of what it turns of a head
  int64_t experts_step = 1;        // experts are routed in so many groups

  const std::string &name() const { return architecture.name; }
  // Of the layers with experts, or nothing where there is none.
  const budget::ExpertMlp *experts() const;
  int64_t denseWidth() const; // 0 without dense layers
};

// Why a model with a loop is no baseline, or "" for one without.
std::string checkUnlooped(const budget::Architecture &architecture);

// Why the matcher cannot take this baseline, or "".
std::string checkBaseline(const Baseline &baseline);

} // namespace smelt::planner
