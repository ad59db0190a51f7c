// A model ready to run: code, memory, workers, and what its sequences hold.
#pragma once

#include "runtime/src/Executor.h"
#include "runtime/src/StepInput.h"

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
  const smelt_memory &memory() const { return plan.memory; }
  const Artifact &artifact() const { return *owner; }
  Executor &executor() { return *runner; }
  const Executor &executor() const { return *runner; }

private:
  Session() = default;
  void findInterface();
  void fillTables();
  std::byte *buffer(int index) const {
    return index < 0 ? nullptr : arena.data() + plan.offsets[size_t(index)];
  }
  // One step: tokens [begin, end) of the forward, and its rows of logits.
  Status runChunk(const smelt_step &step, size_t begin, size_t end, size_t rowBegin, size_t rowEnd,
                  float *logits);
  StepTraffic traffic(size_t begin, size_t end, size_t rows);

  std::shared_ptr<const Artifact> owner;
  std::shared_ptr<const BoundWeights> weights;
  smelt_session_options resolved = {};
  MemoryPlan plan;
  Memory arena, state;
  CodeImage image;
  Program program;
  std::unique_ptr<Executor> runner;
  // Indices of the buffers the runtime fills and reads; -1 when the program has none.
  int tokenIds = -1, positions = -1, sequenceIds = -1, logitRows = -1, logitBuffer = -1;
  std::vector<uint32_t> lengths;
  StepInput input;
  std::vector<bool> touched; // by sequence, within traffic()
};

} // namespace smelt::runtime
