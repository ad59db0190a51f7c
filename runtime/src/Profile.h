// What each kernel of a session took.
#pragma once

#include "runtime/src/LaunchCost.h"

#include <vector>

namespace smelt::runtime {

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
