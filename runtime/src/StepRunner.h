// What a session runs its steps on: the CPU or a GPU, with all memory of the model there.
#pragma once

#include "runtime/src/MemoryPlan.h"

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace smelt::runtime {

// One step, checked: token i of sequence sequenceIds[i] goes to position positions[i].
struct StepBatch {
  std::span<const int32_t> tokens, positions, sequenceIds; // [T]
  std::span<const int32_t> logitRows;                      // [R], rows of these tokens, increasing
  uint64_t firstToken = 0;                                 // of the forward's tokens; for probes
  uint64_t cachedPositions = 0;                            // of the sequences in the step, after it
};

// How the tokens of a step's rows of logits are drawn.
struct Sampling {
  smelt_sampling how = {};
  std::span<const uint64_t> streams; // [R]
  uint64_t step = 0;
};

// Takes the tokens of one step; false: no more are wanted.
using TokenSink = std::function<bool(std::span<const int32_t> tokens)>;

class StepRunner {
public:
  virtual ~StepRunner() = default;

  // Runs the step and stores its logits, f32 [R, vocab_size]. SMELT_interrupted after interrupt();
  // SMELT_internal when a kernel fails. The batch is at most `extent` large.
  virtual Status run(const StepBatch &batch, float *logits) = 0;
  // Runs the step and draws a token for each of its rows of logits, [R]; at most as many rows as there are
  // sequences. SMELT_weights: a logit is not finite.
  virtual Status sample(const StepBatch &batch, const Sampling &sampling, int32_t *tokens);
  // Runs `steps` steps, the first being `batch`, in which row r of logits is that of token r; each further
  // step runs the tokens that were drawn in the one before, at the next positions and with the next random
  // numbers. Stops early when `sink` wants no more, or as sample() does; sequences hold what the sink has
  // been given tokens for.
  virtual Status generate(const StepBatch &batch, const Sampling &sampling, uint32_t steps,
                          const TokenSink &sink);
  // Of the index-th kernel; null when there is none or nothing is measured.
  virtual const smelt_kernel_profile *profile(uint32_t index) const = 0;
  virtual void resetProfile() = 0;
  // See smelt_session_gemm.
  virtual std::string gemm() const { return {}; }

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
  StepRunner(const Extent &extent, const smelt_memory &memory, uint32_t vocabSize)
      : vocabSize(vocabSize), largest(extent), needed(memory) {}

  const uint32_t vocabSize;

  std::atomic<bool> interrupted{false};
  smelt_probe_fn probe = nullptr;
  void *probeUser = nullptr;

private:
  Extent largest; // of a step
  smelt_memory needed;
  std::vector<float> sampledLogits; // of sample() here
};

} // namespace smelt::runtime
