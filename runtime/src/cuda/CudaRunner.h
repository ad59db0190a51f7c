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
  Status sample(const StepBatch &batch, const Sampling &sampling, int32_t *tokens) override;
  Status generate(const StepBatch &batch, const Sampling &sampling, uint32_t steps,
                  const TokenSink &sink) override;
  const smelt_kernel_profile *profile(uint32_t index) const override;
  void resetProfile() override;
  std::string gemm() const override;

private:
  CudaRunner(std::shared_ptr<const Artifact> artifact, DevicePointer device, DevicePlan plan);
  Status allocate();
  Status fillTables();
  Status fillWeights(const BoundWeights &weights, const smelt_session_options &options);
  Status buildPrograms(Module module, bool measure);

  // How a step differs from others of its extent.
  struct StepKind {
    StepEnd end = StepEnd::logits;
    bool continued = false; // its inputs lie on the device already
    unsigned variant() const { return 2 * unsigned(end) + continued; }
  };

  size_t choose(uint64_t tokens) const;
  Status begin();
  Status addEvents(std::vector<OwnedEvent> &list, size_t count, EventFlag flag);
  void fillInputs(const ProgramPlan &plan, const StepBatch &batch);
  void fillDraws(const ProgramPlan &plan, const Sampling &sampling, bool advance);
  StepTraffic trafficOf(const StepBatch &batch) const;
  // Puts a step on the stream, as a graph, launch by launch, or observed.
  Status start(size_t index, const StepTraffic &step, StepKind kind, uint64_t firstToken);
  // Waits for all that has been started, and tells how it went.
  Status finish(Status started);
  // Puts the whole step on the stream: inputs, launches, logits.
  Status enqueue(CudaProgram &program, const Extent &step, StepKind kind, bool interruptible);
  // From the step that comes next in the stream; `slot` is free again when its tokens have been taken.
  Status copySampled(const CudaProgram &program, uint64_t rows, uint64_t slot);
  std::span<const int32_t> sampledOf(uint64_t slot, uint64_t rows) const;
  Status copyInputs(const CudaProgram &program);
  Status copyLogits(const CudaProgram &program, const Extent &step);
  Status launch(CudaProgram &program, const DeviceLaunch &launch, const Extent &step);
  Status launchStage(CudaProgram &program, const DeviceLaunch &launch, const DeviceStageCode &code,
                     const Extent &step);
  // Whether the products of a launch are the library's business in a step of so many rows.
  Result<bool> libraryTakes(const CudaProgram &program, const DeviceLaunch &launch, uint64_t rows);
  Status launchByLibrary(CudaProgram &program, const DeviceLaunch &launch, const Extent &step, uint64_t rows);
  Status runAsGraph(size_t index, const Extent &step, StepKind kind);
  // Launch by launch, with times or what was written.
  Status runObserved(size_t index, const StepTraffic &step, StepKind kind, uint64_t firstToken);
  Status callProbe(const CudaProgram &program, const DeviceLaunch &launch, const Extent &step,
                   uint64_t firstToken);
  Status addTimes(size_t index, const StepTraffic &step, StepEnd end);
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
  PinnedMemory inputs, logitRows, sampledTokens;
  DeviceMemory libraryWorkspace;
  std::unique_ptr<GemmLibrary> library; // null: our kernels multiply
  std::vector<CudaProgram> programs;
  std::vector<Profile> profiles; // by program; empty when nothing is measured
  std::vector<OwnedEvent> events;
  std::vector<OwnedEvent> delivered; // by slot of sampledTokens
  std::vector<std::byte> probed;
  std::unique_ptr<GraphCache> graphs; // null: every step is launched
  bool synchronous = false;           // wait after every launch, to find the one that fails
  Status failure;                     // of the context
};

} // namespace smelt::runtime::cuda
