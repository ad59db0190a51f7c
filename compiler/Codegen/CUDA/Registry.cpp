#include "compiler/Codegen/CUDA/Kernels.h"

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
