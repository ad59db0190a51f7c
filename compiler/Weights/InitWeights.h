// `smeltc weights init`: random weights for a spec, as safetensors with Hugging Face names.
//
// Scales keep the routing of an untrained model even, so that its timings mean something. A matrix has
// deviation 1/sqrt(fan in), which makes unit outputs of unit inputs; embeddings 1; the attention output
// projection 0.1 and every FFN down projection 0.5 times their 1/sqrt(fan in), so that the residual stream
// stays dominated by the token. Norm weights are 1 ± 0.05 and biases 0 ± 0.1 instead of exactly 1 and 0: a
// weight that the model ignores or mixes up then shows in the logits.
#pragma once

#include "compiler/Spec/ModelSpec.h"
#include "compiler/Spec/WeightTable.h"
#include "compiler/Weights/RandomFill.h"
#include "runtime/src/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace smelt::weights {

enum class WeightDType { f32, bf16 };

struct InitOptions {
  std::string path; // FILE.safetensors
  uint64_t seed = 0;
  WeightDType dtype = WeightDType::bf16;
  // Largest number of tensor bytes in a file; 0: everything goes into `path`. When the tensors need more,
  // they go to FILE-00001-of-0000N.safetensors and so on, listed in FILE.safetensors.index.json.
  uint64_t shard_bytes = 0;
  unsigned threads = 0; // 0: one per processor
  // Called on the calling thread as bytes are written.
  std::function<void(uint64_t done, uint64_t total)> progress;
  // Asked often, on any thread; true abandons the work, leaving no file behind.
  std::function<bool()> cancelled;
};

struct InitResult {
  std::vector<std::string> files; // the index, when there is one, first
  uint64_t tensors = 0;
  uint64_t parameters = 0;
  uint64_t bytes = 0; // of all files
};

// SMELT_io: a file cannot be written, or there is too little space for it; SMELT_interrupted: cancelled.
// Either way no file has changed.
runtime::Result<InitResult> initWeights(const spec::ModelSpec &spec, const InitOptions &options);

// The distribution a tensor of this family is drawn from.
Distribution initialDistribution(const spec::WeightDecl &decl);

} // namespace smelt::weights
