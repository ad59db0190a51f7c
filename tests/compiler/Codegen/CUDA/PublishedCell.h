// The kernels of the published 1.6B cell in short steps.
#pragma once

#include "tests/compiler/Codegen/CUDA/CudaHarness.h"

namespace smelt::codegen::test {

struct Cell {
  static constexpr int64_t hidden = 1848, query = 36, kv = 9, dim = 42, experts = 504, topK = 8,
                           features = 616;
  // Of one layer, around the layers, and of those that choose tokens.
  std::vector<cuda::KernelRequest> layer, ends, sampling;
};
Cell publishedCell();

// What the signature of a kernel says of one token: bytes of the weights it reads, of top_k experts where
// there are experts, and floating-point operations.
struct Work {
  int64_t weight_bytes = 0, flops = 0;
};
Work workOf(const KernelDesc &kernel);

} // namespace smelt::codegen::test
