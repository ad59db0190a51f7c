// Where the loop goes: the middle span of an unlooped model.
#pragma once

#include "compiler/Budget/Architecture.h"
#include "compiler/Planner/Baseline.h"
#include "compiler/Spec/ModelSpec.h"

#include <cstdint>
#include <optional>
#include <string>

namespace smelt::planner {

struct LoopPlacement {
  int64_t prelude = 0; // layers before the span
  int64_t looped = 0;
  int64_t coda = 0;
};

// Of L layers the span has m = round(span x L), with floor((L - m) / 2) before it: 10 layers at 0.5 give
// 2/5/3. Nothing when the span would be empty.
std::optional<LoopPlacement> placeLoop(int64_t layers, double span);

// A spec with a loop, or why it cannot be looped there.
struct LoopedResult {
  std::optional<spec::ModelSpec> spec;
  std::string error;
};

// The baseline with another number of layers. Refuses baselines of several kinds of layers: which of them
// there should be more of is not the matcher's to say.
LoopedResult withLayers(const spec::ModelSpec &baseline, int64_t layers);

// The baseline with its middle span visited `visits` times in block order, residual scale divided by the
// visits. Refuses baselines that already loop and spans that cross layers of different kinds, which cannot be
// one segment.
LoopedResult loopMiddle(const spec::ModelSpec &baseline, double span, int64_t visits);

// A baseline with that many layers and its middle span looped; `spec` where the baseline is one.
struct LoopedModel {
  std::optional<budget::Architecture> architecture;
  std::optional<spec::ModelSpec> spec = std::nullopt;
  std::string error = {};
};

// For specs, the two functions above. Of other models the span keeps its pattern of layers, which may be of
// several kinds; dense layers before the first experts are no part of a pattern and stay outside.
LoopedModel loopedModel(const Baseline &baseline, int64_t layers, double span, int64_t visits);

int64_t physicalLayers(const budget::Architecture &architecture);

} // namespace smelt::planner
