// How many CPUs this process may use.
#pragma once

#include <cstdint>

namespace smelt::runtime {

// CPUs of the affinity mask, lowered to the quotas of the CPU control groups around the process, rounded up:
// more threads than the quota would be stopped in turns, and all of them wait for the one that is stopped. At
// least 1.
uint32_t usableCpus();

} // namespace smelt::runtime
