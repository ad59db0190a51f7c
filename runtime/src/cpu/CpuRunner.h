// Runs steps on the CPU: an artifact's code variant, memory and workers.
#pragma once

#include "runtime/src/Executor.h"
#include "runtime/src/ProgramTables.h"
#include "runtime/src/StepRunner.h"

namespace smelt::runtime {

class CpuRunner : public StepRunner {
public:
  // Fills the defaults of `options`, isa included. See smelt_session_create.
  static Result<std::unique_ptr<StepRunner>> create(std::shared_ptr<const Artifact> artifact,
                                                    std::shared_ptr<const BoundWeights> weights,
                                                    smelt_session_options &options);

  Status run(const StepBatch &batch, float *logits) override;
  smelt_memory memory() const override;
  const smelt_kernel_profile *profile(uint32_t index) const override;
  void resetProfile() override;

private:
  CpuRunner(std::shared_ptr<const Artifact> artifact, std::shared_ptr<const PackedWeights> weights,
            MemoryPlan plan, bool measure);
  void fillTables();
  std::byte *buffer(int index) const {
    return index < 0 ? nullptr : arena.data() + plan.offsets[size_t(index)];
  }

  std::shared_ptr<const Artifact> owner;
  std::shared_ptr<const PackedWeights> weights;
  ProgramTables tables;
  StepInterface interface;
  MemoryPlan plan;
  Memory arena, state;
  CodeImage image;
  Program program;
  std::unique_ptr<Executor> executor;
  std::optional<Profile> measured;
};

} // namespace smelt::runtime
