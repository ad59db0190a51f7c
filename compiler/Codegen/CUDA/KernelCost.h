// What a kernel moves and computes at the least, from its role and parameters: the numbers a roofline needs.
#pragma once

#include "compiler/Codegen/Common/Kernel.h"

#include <cstdint>

namespace smelt::codegen::cuda {

// The step a kernel runs in.
struct StepShape {
  int64_t tokens = 1;
  int64_t logit_rows = 1;
  int64_t context = 1; // positions each token attends to, its own included
};

// Bytes are those of the tensors' elements, without what layouts pad; every weight counts once, every expert
// at most once for each (token, choice), and every token reads the cache of its own sequence.
struct KernelCost {
  int64_t weight_bytes = 0;
  int64_t cache_bytes = 0;      // keys and values read and written
  int64_t activation_bytes = 0; // read and written
  int64_t flops = 0;            // two for a multiplication with its addition

  int64_t bytes() const { return weight_bytes + cache_bytes + activation_bytes; }
};

// Zero for roles that are not known. Weights are bf16.
KernelCost kernelCost(const KernelDesc &kernel, const StepShape &step);

} // namespace smelt::codegen::cuda
