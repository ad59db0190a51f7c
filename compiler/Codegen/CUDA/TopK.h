// The top k of a token's router logits, by one warp.
#pragma once

#include "compiler/Codegen/CUDA/Kernels.h"

namespace smelt::codegen::cuda {

// f32 as unsigned integers in the same order, both zeros as one, and back.
Value keyOf(Emitter &e, Value logit);
Value logitOf(Emitter &e, Value key);

struct Routing {
  explicit Routing(const KernelBuilder &kernel);
  int64_t experts, topK;
  bool sigmoid, renormalize;
  // Shared memory a warp works in.
  int64_t sharedBytes() const { return 4 * experts; }
};

// Writes the chosen experts in falling order of their logits, ties to the lower index, and their weights. All
// lanes of the warp must come here; `logits` are f32[experts] in global memory, `indices` and `weights` the
// token's rows of topK, `keys` the warp's shared memory.
void emitTopK(Emitter &e, const Routing &routing, Value logits, Value indices, Value weights, Value keys);

} // namespace smelt::codegen::cuda
