// A model ready to run: what it runs on, and what its sequences hold.
#pragma once

#include "runtime/src/StepInput.h"
#include "runtime/src/StepRunner.h"
#include "runtime/src/WeightBinding.h"

namespace smelt::runtime {

class Session {
public:
  // See smelt_session_create.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Artifact> artifact,
                                                 std::shared_ptr<const BoundWeights> weights,
                                                 smelt_session_options options);

  // See smelt_session_forward.
  Status forward(const smelt_step &step, float *logits);
  // See smelt_session_sample and smelt_session_generate.
  Status sample(const smelt_step &step, const smelt_sampling &how, const uint64_t *streams, uint64_t drawStep,
                int32_t *tokens);
  Status generate(const smelt_generation &generation);
  uint32_t length(uint32_t sequence) const { return sequence < lengths.size() ? lengths[sequence] : 0; }
  Status truncate(uint32_t sequence, uint32_t length);

  const smelt_session_options &options() const { return resolved; }
  smelt_memory memory() const { return runner->memory(); }
  StepRunner &steps() { return *runner; }
  const StepRunner &steps() const { return *runner; }

private:
  Session() = default;
  // Cuts a forward into steps of at most `mostRows` rows of logits, which `run` runs; `firstRow` is the
  // step's first row of the forward's.
  using RunStep = std::function<Status(const StepBatch &batch, size_t firstRow)>;
  Status runSteps(const smelt_step &step, uint64_t mostRows, const RunStep &run);
  // One step: tokens [begin, end) of the forward, and its rows of logits.
  StepBatch batchOf(const smelt_step &step, size_t begin, size_t end, size_t rowBegin, size_t rowEnd);
  Status generateAtOnce(const smelt_step &step, const Sampling &sampling, const smelt_generation &generation);
  uint64_t cachedPositions(size_t begin, size_t end);

  std::shared_ptr<const Artifact> owner;
  smelt_session_options resolved = {};
  std::unique_ptr<StepRunner> runner;
  std::vector<uint32_t> lengths;
  StepInput input;
  std::vector<int32_t> rows; // of the current step
  std::vector<bool> touched; // by sequence, within cachedPositions()
};

// See smelt_memory_needed.
Result<smelt_memory> memoryNeeded(const Artifact &artifact, smelt_session_options options);

} // namespace smelt::runtime
