#include "runtime/src/SystemCpus.h"

#include "runtime/src/Cgroups.h"

#include <algorithm>
#include <fstream>
#include <thread>

namespace smelt::runtime {
namespace {

uint32_t affinityCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return uint32_t(CPU_COUNT(&set));
  }
  return std::thread::hardware_concurrency();
}

} // namespace

uint32_t usableCpus() {
  uint64_t least = affinityCpus();
  visitCgroups("cpu", [&](const std::string &folder, int version) {
    int64_t quota = 0, period = 0; // microseconds; "max" and -1 mean no quota and fail the test below
    if (version == 2) {
      std::ifstream(folder + "/cpu.max") >> quota >> period;
    } else {
      std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
      std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    }
    if (quota > 0 && period > 0) {
      least = std::min(least, uint64_t((quota + period - 1) / period));
    }
  });
  return uint32_t(std::max<uint64_t>(least, 1));
}

CpuDealer::CpuDealer(const cpu_set_t &allowed, int current, int32_t workers) : left(allowed) {
  bool isAllowed = current >= 0 && current < CPU_SETSIZE && CPU_ISSET(current, &allowed);
  if (isAllowed && CPU_COUNT(&allowed) == workers) {
    CPU_CLR(current, &left);
  } else {
    CPU_ZERO(&left);
  }
}

int CpuDealer::next() {
  while (cpu < CPU_SETSIZE) {
    if (int candidate = cpu++; CPU_ISSET(candidate, &left)) {
      return candidate;
    }
  }
  return -1;
}

} // namespace smelt::runtime
