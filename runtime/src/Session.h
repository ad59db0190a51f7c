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
  uint32_t length(uint32_t sequence) const { return sequence < lengths.size() ? lengths[sequence] : 0; }
  Status truncate(uint32_t sequence, uint32_t length);

  const smelt_session_options &options() const { return resolved; }
  smelt_memory memory() const { return runner->memory(); }
  StepRunner &steps() { return *runner; }
  const StepRunner &steps() const { return *runner; }

private:
  Session() = default;
  // One step: tokens [begin, end) of the forward, and its rows of logits.
  Status runChunk(const smelt_step &step, size_t begin, size_t end, size_t rowBegin, size_t rowEnd,
                  float *logits);
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
