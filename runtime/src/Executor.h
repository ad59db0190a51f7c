// Runs the launches of a step on the workers of a pool.
#pragma once

#include "runtime/src/Profile.h"
#include "runtime/src/Program.h"
#include "runtime/src/SystemMemory.h"
#include "runtime/src/ThreadPool.h"

#include <atomic>

namespace smelt::runtime {

// All workers walk the list of launches, each at its own pace between barriers. Launches too small to be
// worth another worker run on worker 0 alone, one after the other; the next that is large enough waits for
// them. A kernel's result does not depend on the number of workers, so what runs where changes no bit.
class Executor {
public:
  // Who looks at the launches of a step.
  struct Watch {
    std::atomic<bool> &interrupted;
    Profile *profile = nullptr;
    smelt_probe_fn probe = nullptr;
    void *probeUser = nullptr;
  };

  // `scratch` holds scratchStride bytes for each worker of the pool. A launch that takes one worker less than
  // minSharedNanoseconds, by a rough estimate, is not shared.
  Executor(const ProgramTables &tables, std::unique_ptr<ThreadPool> pool, Memory scratch,
           uint64_t scratchStride, uint32_t minSharedNanoseconds);

  // SMELT_interrupted between two launches once `watch.interrupted` is set; SMELT_internal when a kernel
  // fails. `firstToken` is for probes.
  Status run(Program &program, const StepTraffic &step, uint64_t firstToken, const Watch &watch);

private:
  struct Walk;
  class Walker;
  // Decides which launches of the step all workers share.
  void share(const Program &program, const StepTraffic &step);
  Status kernelFailed(const Launch &launch, int32_t code) const;
  void callProbe(const Program &program, const Launch &launch, const StepTraffic &step, uint64_t firstToken,
                 const Watch &watch) const;

  // A work counter on a cache line of its own.
  struct alignas(64) Ticket {
    int64_t value = 0;
  };

  ProgramTables tables;
  std::unique_ptr<ThreadPool> pool;
  Memory scratch;
  uint64_t scratchStride;
  double minSharedNanoseconds;
  // Launches of all workers take the first two in turns, so that one can be set back while the other is used;
  // those of worker 0 take the last.
  Ticket tickets[3];
  std::vector<uint8_t> shared; // by launch
  bool anyShared = false;
  StepTraffic sharedFor; // the step this was decided for
};

} // namespace smelt::runtime
