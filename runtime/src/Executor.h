// Runs the launches of a step.
#pragma once

#include "runtime/src/Profile.h"
#include "runtime/src/Program.h"
#include "runtime/src/SystemMemory.h"
#include "runtime/src/ThreadPool.h"

#include <atomic>

namespace smelt::runtime {

class Executor {
public:
  // `scratch` holds scratchStride bytes for each worker of the pool.
  Executor(const artifact::Manifest &manifest, std::unique_ptr<ThreadPool> pool, Memory scratch,
           uint64_t scratchStride);

  // SMELT_interrupted between two launches after interrupt(); SMELT_internal when a kernel fails.
  // `firstToken` is for probes.
  Status run(Program &program, const StepTraffic &step, uint64_t firstToken);

  void interrupt() { interrupted.store(true, std::memory_order_relaxed); }
  void setProbe(smelt_probe_fn function, void *user) {
    probe = function;
    probeUser = user;
  }
  void enableProfile() { profile.emplace(manifest); }
  std::optional<Profile> profile;

private:
  // One launch, as the workers see it.
  struct Shared {
    smelt_kernel_fn entry = nullptr;
    smelt_kernel_args args = {};
    std::atomic<int32_t> code{0};
  };
  static void work(void *shared, int32_t worker, int32_t workers);
  Status kernelFailed(const Launch &launch) const;
  void callProbe(const Program &program, const Launch &launch, const StepTraffic &step,
                 uint64_t firstToken) const;

  const artifact::Manifest &manifest;
  std::unique_ptr<ThreadPool> pool;
  Memory scratch;
  smelt_probe_fn probe = nullptr;
  void *probeUser = nullptr;
  std::atomic<bool> interrupted{false};
  Shared shared;
  alignas(64) int64_t ticket = 0;
};

} // namespace smelt::runtime
