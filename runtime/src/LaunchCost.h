// What a launch has to do at least, from the sizes the manifest gives.
#pragma once

#include "runtime/src/MemoryPlan.h"
#include "runtime/src/ProgramTables.h"

namespace smelt::runtime {

// A step as the traffic of its kernels depends on it.
struct StepTraffic {
  Extent extent;
  uint64_t cachedPositions = 0; // of the sequences in the step, after it
};

struct LaunchCost {
  double bytes = 0; // inputs, outputs, weights touched, cache positions read
  double flops = 0; // 0 when negligible
};

LaunchCost launchCost(const CallPlace &launch, const ProgramTables &program, const StepTraffic &step);

} // namespace smelt::runtime
