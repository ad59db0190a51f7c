// Runs steps on a GPU. docs/cuda.md tells how.
#pragma once

#include "runtime/src/Profile.h"
#include "runtime/src/StepRunner.h"
#include "runtime/src/WeightBinding.h"
#include "runtime/src/cuda/CudaProgram.h"
#include "runtime/src/cuda/GraphCache.h"

namespace smelt::runtime::cuda {

// The N of "cuda" or "cuda:N"; nullopt when `device` is something else.
std::optional<int> parseDevice(std::string_view device);

// The plan of a session that is not made: options.device is "cuda", "cuda:N" or the name of a target.
Result<DevicePlan> planFor(const Artifact &artifact, const smelt_session_options &options);

class CudaRunner : public StepRunner {
public:
  // Fills the defaults of `options`, isa and device included. See smelt_session_create.
  static Result<std::unique_ptr<StepRunner>> create(std::shared_ptr<const Artifact> artifact,
                                                    std::shared_ptr<const BoundWeights> weights,
                                                    smelt_session_options &options);

  Status run(const StepBatch &batch, float *logits) override;
  const smelt_kernel_profile *profile(uint32_t index) const override;
  void resetProfile() override;

private:
  CudaRunner(std::shared_ptr<const Artifact> artifact, DevicePointer device, DevicePlan plan);
  Status allocate();
  Status fillTables();
  Status fillWeights(const BoundWeights &weights, const smelt_session_options &options);
  Status buildPrograms(Module module, bool measure);

  size_t choose(uint64_t tokens) const;
  void fillInputs(const ProgramPlan &plan, const StepBatch &batch);
  // Puts the whole step on the stream: inputs, launches, logits.
  Status enqueue(CudaProgram &program, const Extent &step, bool interruptible);
  Status copyInputs(const CudaProgram &program);
  Status copyLogits(const CudaProgram &program, const Extent &step);
  Status launch(CudaProgram &program, const DeviceLaunch &launch, const Extent &step);
  Status runAsGraph(size_t index, const Extent &step);
  // Launch by launch, with times or what was written.
  Status runObserved(size_t index, const StepTraffic &step, uint64_t firstToken);
  Status callProbe(const CudaProgram &program, const DeviceLaunch &launch, const Extent &step,
                   uint64_t firstToken);
  Status addTimes(size_t index, const StepTraffic &step);
  Status synchronize(std::string_view what);
  // A fault of a kernel ends the context: every later step tells of the first one.
  Status broken(Status status);

  std::shared_ptr<const Artifact> owner;
  DevicePointer device;
  std::string deviceName; // "cuda:0"
  DevicePlan plan;
  Module module;
  OwnedStream stream;
  DeviceMemory weightMemory, state, workspace, tables, scratch, tickets;
  PinnedMemory inputs, logitRows;
  std::vector<CudaProgram> programs;
  std::vector<Profile> profiles; // by program; empty when nothing is measured
  std::vector<OwnedEvent> events;
  std::vector<std::byte> probed;
  std::unique_ptr<GraphCache> graphs; // null: every step is launched
  bool synchronous = false;           // wait after every launch, to find the one that fails
  Status failure;                     // of the context
};

} // namespace smelt::runtime::cuda
