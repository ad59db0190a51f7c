// What each kernel of a session took.
#pragma once

#include "runtime/src/MemoryPlan.h"
#include "runtime/src/Program.h"

#include <vector>

namespace smelt::runtime {

// A step as the traffic of its kernels depends on it.
struct StepTraffic {
  Extent extent;
  uint64_t cachedPositions = 0; // of the sequences in the step, after it
};

class Profile {
public:
  explicit Profile(const artifact::Manifest &manifest);

  void add(const Launch &launch, const StepTraffic &step, double seconds);
  void reset();
  const smelt_kernel_profile &kernel(uint32_t index) const { return entries[index]; }

private:
  const artifact::Manifest &manifest;
  std::vector<smelt_kernel_profile> entries;
};

} // namespace smelt::runtime
