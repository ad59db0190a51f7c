// `smeltc weights quantize`: safetensors files with f32 or bf16 weights to files for models with i8 weights.
//
// A projection NAME becomes NAME, I8, and NAME_scale, BF16 [rows, ceil(columns / 32)]; everything else
// becomes BF16.
#pragma once

#include "compiler/Spec/WeightTable.h"
#include "compiler/Weights/QuantError.h"
#include "runtime/src/Status.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace smelt::weights {

struct QuantizeOptions {
  std::vector<std::string> inputs; // files, indexes or folders, as the runtime takes them
  std::string output;              // FILE.safetensors
  uint64_t shard_bytes = 0;        // as InitOptions has it
  unsigned threads = 0;            // 0: one per processor
  // As InitOptions has them.
  std::function<void(uint64_t done, uint64_t total)> progress;
  std::function<bool()> cancelled;
};

struct QuantizeResult {
  std::vector<std::string> files; // the index, when there is one, first
  uint64_t tensors = 0;           // quantised
  uint64_t kept = 0;              // the others
  uint64_t input_bytes = 0, output_bytes = 0;
  std::map<spec::WeightRole, QuantError> errors; // of the quantised tensors
  QuantError total;
  bool rounded = false; // kept tensors that were f32 were rounded to bf16
};

// What cannot be quantised is listed all at once, and no file changes. SMELT_weights: a tensor is none of a
// spec's, neither F32 nor BF16, of the wrong rank, quantised already, or holds NaN or infinity. SMELT_io: a
// file cannot be read or written, or is one of the inputs. SMELT_interrupted: cancelled.
runtime::Result<QuantizeResult> quantizeWeights(const QuantizeOptions &options);

} // namespace smelt::weights
