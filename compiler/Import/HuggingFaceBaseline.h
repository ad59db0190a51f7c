// Imported models as what the matcher starts from.
#pragma once

#include "compiler/Import/HuggingFace.h"
#include "compiler/Planner/Baseline.h"

namespace smelt::hf {

// A spec where one can say the whole model; otherwise the layers as they are, with what keeps it from being a
// spec.
planner::Baseline toBaseline(const Model &model);

} // namespace smelt::hf
