// What each kernel of a session took.
#pragma once

#include "runtime/src/MemoryPlan.h"
#include "runtime/src/ProgramTables.h"

#include <vector>

namespace smelt::runtime {

// A step as the traffic of its kernels depends on it.
struct StepTraffic {
  Extent extent;
  uint64_t cachedPositions = 0; // of the sequences in the step, after it
};

class Profile {
public:
  explicit Profile(const ProgramTables &program);

  void add(const CallPlace &launch, const StepTraffic &step, double seconds);
  void reset();
  uint32_t size() const { return uint32_t(entries.size()); }
  const smelt_kernel_profile &kernel(uint32_t index) const { return entries[index]; }

private:
  ProgramTables program;
  std::vector<smelt_kernel_profile> entries;
};

} // namespace smelt::runtime
