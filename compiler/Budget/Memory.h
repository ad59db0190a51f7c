// How many bytes a model's weights and KV cache take.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <cstdint>
#include <optional>

namespace smelt::budget {

struct Memory {
  int64_t weight_bytes = 0;     // as stored in a weights file, without its header
  int64_t kv_bytes = 0;         // of one sequence of `positions`, the cache in 32-bit floats
  int64_t positions = 0;        // cached per sequence
  int64_t bytes_per_weight = 0; // 4 for f32, 2 for bf16

  bool operator==(const Memory &) const = default;
};

// Nothing when a number does not fit in 64 bits. Activations and packed copies are the runtime's and not
// here.
std::optional<Memory> estimateMemory(const spec::ModelSpec &spec, int64_t bytes_per_weight,
                                     int64_t positions);

} // namespace smelt::budget
