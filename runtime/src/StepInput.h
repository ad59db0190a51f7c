// The inputs of a forward, checked and completed.
#pragma once

#include "runtime/src/Status.h"
#include "smelt/runtime.h"

#include <span>
#include <vector>

namespace smelt::runtime {

struct StepLimits {
  uint32_t vocabSize = 0, capacity = 0;
};

struct StepInput {
  std::vector<int32_t> positions, sequenceIds; // [token_count]
  std::vector<uint32_t> lengths;               // of all sequences, after the step

  // Fills the members from `step`. SMELT_input lists every value that is out of range or out of order.
  Status read(const smelt_step &step, std::span<const uint32_t> currentLengths, StepLimits limits);
};

} // namespace smelt::runtime
