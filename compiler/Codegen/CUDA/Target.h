// The GPU architectures smeltc compiles for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smelt::codegen::cuda {

struct Target {
  std::string chip;            // as LLVM and ptxas name it: "sm_80", "sm_90a"
  unsigned compute_capability; // major * 10 + minor
  bool exact;                  // code runs on this compute capability alone
  unsigned ptx_version;        // 10 * the PTX ISA version the code is written in

  // "cuda:sm_90a"
  std::string name() const { return "cuda:" + chip; }
};

// sm_80, sm_86, sm_89, sm_90a, sm_100a.
const std::vector<Target> &targets();
// By chip, with or without "cuda:"; null when unknown.
const Target *findTarget(std::string_view name);

} // namespace smelt::codegen::cuda
