#include "compiler/Codegen/CUDA/Kernels.h"

#include <map>

namespace smelt::codegen::cuda {

KernelEmitter shortKernelEmitter(const std::string &role) {
  static const std::map<std::string, KernelEmitter> table = {
      {"embed", emitEmbed},
      {"norm_linear", emitNormLinearShort},
      {"linear_residual", emitLinearResidualShort},
      {"gate_up", emitGateUpShort},
      {"norm_qkv_rope", emitNormQkvRope},
      {"attention", emitAttentionShort},
      {"norm_route", emitNormRoute},
      {"experts_gate_up_direct", emitExpertsGateUpDirect},
      {"experts_down_residual", emitExpertsDownResidual},
  };
  auto it = table.find(role);
  return it == table.end() ? nullptr : it->second;
}

} // namespace smelt::codegen::cuda
