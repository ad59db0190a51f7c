#include "compiler/Codegen/CPU/Kernels.h"

#include <map>
#include <set>

namespace smelt::codegen::cpu {

KernelEmitter kernelEmitter(const std::string &role) {
  static const std::map<std::string, KernelEmitter> table = {
      {"embed", emitEmbed},
      {"norm_linear", emitNormLinear},
      {"linear_residual", emitLinearResidual},
      {"gate_up", emitGateUp},
      {"rope_append", emitRopeAppend},
      {"attention", emitAttention},
      {"route", emitRoute},
      {"moe_plan", emitMoePlan},
      {"experts_gate_up", emitExpertsGateUp},
      {"experts_down", emitExpertsDown},
      {"combine_residual", emitCombineResidual},
  };
  auto it = table.find(role);
  return it == table.end() ? nullptr : it->second;
}

bool multipliesWeights(const std::string &role) {
  static const std::set<std::string> roles = {"norm_linear", "linear_residual", "gate_up", "experts_gate_up",
                                              "experts_down"};
  return roles.count(role) != 0;
}

} // namespace smelt::codegen::cpu
