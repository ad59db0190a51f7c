// Where the loop goes: the middle span of an unlooped model.
#pragma once

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

// The baseline with another number of layers. Refuses baselines of several kinds of layers: which of them
// there should be more of is not the matcher's to say.
struct LoopedResult;
LoopedResult withLayers(const spec::ModelSpec &baseline, int64_t layers);

struct LoopedResult {
  std::optional<spec::ModelSpec> spec;
  std::string error; // why the baseline cannot be looped there
};

// The baseline with its middle span visited `visits` times in block order, residual scale divided by the
// visits. Refuses baselines that already loop and spans that cross layers of different kinds, which cannot be
// one segment.
LoopedResult loopMiddle(const spec::ModelSpec &baseline, double span, int64_t visits);

} // namespace smelt::planner
