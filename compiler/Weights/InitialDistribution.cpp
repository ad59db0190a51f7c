#include "compiler/Weights/InitWeights.h"

#include <cmath>

namespace smelt::weights {

namespace {

constexpr float norm_deviation = 0.05F;
constexpr float bias_deviation = 0.1F;
constexpr float attention_output_factor = 0.1F;
constexpr float ffn_output_factor = 0.5F;

float inverseSqrtFanIn(const spec::WeightDecl &decl) {
  return 1.0F / std::sqrt(static_cast<float>(decl.shape.back()));
}

} // namespace

Distribution initialDistribution(const spec::WeightDecl &decl) {
  switch (decl.role) {
  case spec::WeightRole::embedding:
    return {0, 1};
  case spec::WeightRole::attention_norm:
  case spec::WeightRole::ffn_norm:
  case spec::WeightRole::q_norm:
  case spec::WeightRole::k_norm:
  case spec::WeightRole::final_norm:
    return {1, norm_deviation};
  case spec::WeightRole::q_bias:
  case spec::WeightRole::k_bias:
  case spec::WeightRole::v_bias:
    return {0, bias_deviation};
  case spec::WeightRole::o_proj:
    return {0, attention_output_factor * inverseSqrtFanIn(decl)};
  case spec::WeightRole::expert_down:
  case spec::WeightRole::shared_down:
  case spec::WeightRole::mlp_down:
    return {0, ffn_output_factor * inverseSqrtFanIn(decl)};
  case spec::WeightRole::q_proj:
  case spec::WeightRole::k_proj:
  case spec::WeightRole::v_proj:
  case spec::WeightRole::router:
  case spec::WeightRole::expert_gate:
  case spec::WeightRole::expert_up:
  case spec::WeightRole::shared_gate:
  case spec::WeightRole::shared_up:
  case spec::WeightRole::mlp_gate:
  case spec::WeightRole::mlp_up:
  case spec::WeightRole::lm_head:
    return {0, inverseSqrtFanIn(decl)};
  }
  __builtin_unreachable();
}

} // namespace smelt::weights
