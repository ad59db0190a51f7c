// The CPUs this process may use.
#pragma once

#include <cstdint>
#include <sched.h>
#include <vector>

namespace smelt::runtime {

// CPUs of the affinity mask, lowered to the quotas of the CPU control groups around the process, rounded up:
// more threads than the quota would be stopped in turns, and all of them wait for the one that is stopped. At
// least 1.
uint32_t usableCpus();

// Where to start workers 1, 2, ..: the CPUs of `allowed` other than `current`, the one of worker 0, in order.
// Empty unless that is exactly one CPU for each of so many workers, `current` included.
std::vector<int> startingCpus(const cpu_set_t &allowed, int current, int32_t workers);

} // namespace smelt::runtime
