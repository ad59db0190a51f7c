// The CPUs this process may use.
#pragma once

#include <cstdint>
#include <sched.h>

namespace smelt::runtime {

// CPUs of the affinity mask, lowered to the quotas of the CPU control groups around the process, rounded up:
// more threads than the quota would be stopped in turns, and all of them wait for the one that is stopped. At
// least 1.
uint32_t usableCpus();

// Deals out the CPUs of a set to the workers of a pool: one each, if they are exactly as many as its CPUs.
class CpuDealer {
public:
  // `current` is the CPU of worker 0.
  CpuDealer(const cpu_set_t &allowed, int current, int32_t workers);
  // The CPU of the next worker, from worker 1 on; -1 when there is not one for each, or when all are dealt.
  int next();

private:
  cpu_set_t left;
  int cpu = 0;
};

} // namespace smelt::runtime
