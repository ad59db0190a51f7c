#include "compiler/Codegen/CUDA/Kernels.h"
#include "compiler/Codegen/CUDA/PrefillKernels.h"

#include <map>

namespace smelt::codegen::cuda {

namespace {
struct Emitters {
  KernelEmitter brief = nullptr, any = nullptr;
};
} // namespace

KernelEmitter kernelEmitter(const std::string &role, StepLength length) {
  static const std::map<std::string, Emitters> table = {
      {"embed", {emitEmbed, emitEmbed}},
      {"argmax", {emitArgmax, emitArgmax}},
      {"sample", {emitSample, emitSample}},
      {"norm_linear", {nullptr, emitGemmNormLinear}},
      {"linear_residual", {nullptr, emitGemmLinearResidual}},
      {"gate_up", {nullptr, emitGemmGateUp}},
      {"rope_append", {emitPrefillRopeAppend, emitPrefillRopeAppend}},
      {"attention", {nullptr, emitFlashAttention}},
      {"route", {nullptr, emitPrefillRoute}},
      {"moe_plan", {nullptr, emitPrefillMoePlan}},
      {"experts_gate_up", {nullptr, emitGroupedGateUp}},
      {"experts_down", {nullptr, emitGroupedDown}},
      {"combine_residual", {nullptr, emitPrefillCombineResidual}},
  };
  if (KernelEmitter emit = shortKernelEmitter(role); emit && length == StepLength::brief) {
    return emit;
  }
  auto it = table.find(role);
  if (it == table.end()) {
    return nullptr;
  }
  return length == StepLength::brief ? it->second.brief : it->second.any;
}

} // namespace smelt::codegen::cuda
