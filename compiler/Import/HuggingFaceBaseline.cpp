#include "compiler/Import/HuggingFaceBaseline.h"

#include <algorithm>
#include <cmath>

namespace smelt::hf {
namespace {

// The step of head sizes at which RoPE turns whole pairs.
int64_t headDimStep(double rotary_part) {
  constexpr int64_t kMost = 128;
  for (int64_t step = 2; step <= kMost; step += 2) {
    const double turned = static_cast<double>(step) * rotary_part;
    if (turned > 0 && std::fmod(turned, 2.0) == 0) {
      return step;
    }
  }
  return 2;
}

} // namespace

planner::Baseline toBaseline(const Model &model) {
  SpecConversion conversion = toSpec(model);
  if (conversion.spec) {
    return {std::move(*conversion.spec)};
  }
  planner::Baseline baseline(model.architecture);
  baseline.beyond_spec = std::move(conversion.inexpressible);
  baseline.shared_experts = std::max<int64_t>(1, model.equal_shared);
  baseline.shared_like_routed = model.equal_shared > 0;
  baseline.head_dim_step = headDimStep(model.rotary_part);
  baseline.experts_step = model.expert_groups;
  return baseline;
}

} // namespace smelt::hf
