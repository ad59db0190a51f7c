#include "compiler/Codegen/CUDA/Target.h"

namespace smelt::codegen::cuda {

const std::vector<Target> &targets() {
  // The oldest PTX version that holds what the kernels use: every driver that knows the chip takes it, except
  // on sm_100a, which needs 8.6 to exist.
  static const std::vector<Target> table = {
      {"sm_80", 80, false, 80}, {"sm_86", 86, false, 80},   {"sm_89", 89, false, 80},
      {"sm_90a", 90, true, 80}, {"sm_100a", 100, true, 86},
  };
  return table;
}

const Target *findTarget(std::string_view name) {
  constexpr std::string_view prefix = "cuda:";
  if (name.substr(0, prefix.size()) == prefix) {
    name.remove_prefix(prefix.size());
  }
  for (const Target &target : targets()) {
    if (target.chip == name) {
      return &target;
    }
  }
  return nullptr;
}

} // namespace smelt::codegen::cuda
