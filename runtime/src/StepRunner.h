// What a session runs its steps on: the CPU or a GPU, with all memory of the model there.
#pragma once

#include "runtime/src/MemoryPlan.h"

#include <atomic>
#include <span>

namespace smelt::runtime {

// One step, checked: token i of sequence sequenceIds[i] goes to position positions[i].
struct StepBatch {
  std::span<const int32_t> tokens, positions, sequenceIds; // [T]
  std::span<const int32_t> logitRows;                      // [R], rows of these tokens, increasing
  uint64_t firstToken = 0;                                 // of the forward's tokens; for probes
  uint64_t cachedPositions = 0;                            // of the sequences in the step, after it
};

class StepRunner {
public:
  virtual ~StepRunner() = default;

  // Runs the step and stores its logits, f32 [R, vocab_size]. SMELT_interrupted after interrupt();
  // SMELT_internal when a kernel fails. The batch is at most `extent` large.
  virtual Status run(const StepBatch &batch, float *logits) = 0;
  // Of the index-th kernel; null when there is none or nothing is measured.
  virtual const smelt_kernel_profile *profile(uint32_t index) const = 0;
  virtual void resetProfile() = 0;

  const Extent &extent() const { return largest; }
  virtual smelt_memory memory() const { return needed; }

  void interrupt() { interrupted.store(true, std::memory_order_relaxed); }
  void setProbe(smelt_probe_fn function, void *user) {
    probe = function;
    probeUser = user;
  }

  // True once after each interrupt.
  static bool take(std::atomic<bool> &interrupted) {
    return interrupted.load(std::memory_order_relaxed) && interrupted.exchange(false);
  }

protected:
  StepRunner(const Extent &extent, const smelt_memory &memory) : largest(extent), needed(memory) {}

  std::atomic<bool> interrupted{false};
  smelt_probe_fn probe = nullptr;
  void *probeUser = nullptr;

private:
  Extent largest; // of a step
  smelt_memory needed;
};

} // namespace smelt::runtime
