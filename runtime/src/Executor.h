// Runs the launches of a step on the workers of a pool.
#pragma once

#include "runtime/src/Profile.h"
#include "runtime/src/Program.h"
#include "runtime/src/SystemMemory.h"
#include "runtime/src/ThreadPool.h"

#include <atomic>

namespace smelt::runtime {

class Executor {
public:
  // Who looks at the launches of a step.
  struct Watch {
    std::atomic<bool> &interrupted;
    Profile *profile = nullptr;
    smelt_probe_fn probe = nullptr;
    void *probeUser = nullptr;
  };

  // `scratch` holds scratchStride bytes for each worker of the pool.
  Executor(const ProgramTables &tables, std::unique_ptr<ThreadPool> pool, Memory scratch,
           uint64_t scratchStride);

  // SMELT_interrupted between two launches once `watch.interrupted` is set; SMELT_internal when a kernel
  // fails. `firstToken` is for probes.
  Status run(Program &program, const StepTraffic &step, uint64_t firstToken, const Watch &watch);

private:
  // One launch, as the workers see it.
  struct Shared {
    smelt_kernel_fn entry = nullptr;
    smelt_kernel_args args = {};
    std::atomic<int32_t> code{0};
  };
  static void work(void *shared, int32_t worker, int32_t workers);
  Status kernelFailed(const Launch &launch) const;
  void callProbe(const Program &program, const Launch &launch, const StepTraffic &step, uint64_t firstToken,
                 const Watch &watch) const;

  ProgramTables tables;
  std::unique_ptr<ThreadPool> pool;
  Memory scratch;
  Shared shared;
  alignas(64) int64_t ticket = 0;
};

} // namespace smelt::runtime
