// The memory of a whole process that runs one session.
#pragma once

#include "runtime/src/MemoryPlan.h"

namespace smelt::runtime {

// The most resident memory of a process that only runs this session on the CPU, with its sequences filled to
// their capacity; docs/artifact.md says what counts. Everything of `plan` but memory.peak must be set.
// `generated`: for hash weights, which are in memory as a whole.
uint64_t peakMemory(const Artifact &artifact, const MemoryPlan &plan, bool generated = false);

} // namespace smelt::runtime
