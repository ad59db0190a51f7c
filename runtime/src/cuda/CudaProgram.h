// A step program of a GPU, unrolled once over visits and layers into launches whose parameters are all
// resolved, as Program does for the CPU.
#pragma once

#include "runtime/src/cuda/DevicePlan.h"
#include "runtime/src/cuda/Module.h"
#include "runtime/src/cuda/GemmLibrary.h"

namespace smelt::runtime::cuda {

// Where the regions of a plan lie.
struct DeviceAddresses {
  DevicePtr weights = 0, state = 0, workspace = 0, tables = 0, scratch = 0, tickets = 0;
};

struct DeviceStageCode {
  Function function = nullptr;
  const artifact::DeviceStage *stage = nullptr;
};

// A stage of a kernel's form for a library: a launch or a product.
struct LibraryStageCode {
  DeviceStageCode launch;
  const artifact::DeviceGemm *gemm = nullptr;
};

// What a step leaves behind.
enum class StepEnd : uint8_t { logits, largest /* tokens: the largest logits' */, draws /* tokens: drawn */ };

struct DeviceLaunch : CallPlace {
  size_t firstParameter = 0; // into CudaProgram::parameters
  size_t firstBinding = 0;   // into CudaProgram::pointers
  bool ofLogitRows = false;  // has nothing to do in a step that wants no logits
  // Of steps that end so alone; `logits`: of all.
  StepEnd only = StepEnd::logits;
};

class CudaProgram {
public:
  // SMELT_artifact when the code lacks a function. Keeps a reference to `plan`.
  static Result<CudaProgram> create(const ProgramPlan &plan, const DevicePlan &device, const Module &module,
                                    const DeviceAddresses &addresses);

  const ProgramPlan &plan() const { return *place; }
  const std::vector<DeviceLaunch> &launches() const { return list; }
  std::span<const DeviceStageCode> stages(const DeviceLaunch &launch) const { return code[launch.kernel]; }
  // Empty when the kernel has no form for a library.
  std::span<const LibraryStageCode> libraryStages(const DeviceLaunch &launch) const {
    return library[launch.kernel];
  }
  // One of them, for `rows` rows; addresses as the launch binds them.
  Gemm gemm(const DeviceLaunch &launch, const artifact::DeviceGemm &stage, uint64_t rows) const;
  // As cuLaunchKernel takes them; the same for all stages.
  void **parameters(const DeviceLaunch &launch) { return parameterList.data() + launch.firstParameter; }
  DevicePtr binding(const DeviceLaunch &launch, size_t index) const {
    return pointers[launch.firstBinding + index];
  }
  DevicePtr buffer(uint32_t index) const;
  // Whether it can choose the tokens of a step, and of one after the other.
  bool choosesTokens() const;
  // Sets the constants that differ from step to step.
  void setStep(const Extent &step);

private:
  class Builder;

  const ProgramPlan *place = nullptr;
  DeviceAddresses addresses;
  std::vector<std::vector<DeviceStageCode>> code;     // by kernel
  std::vector<std::vector<LibraryStageCode>> library; // by kernel
  std::vector<DeviceLaunch> list;
  std::vector<DevicePtr> pointers; // scratch and tickets first
  std::vector<int32_t> values;     // of each call once, whatever its layers and visits
  std::vector<size_t> tokenCounts, rowCounts;
  std::vector<void *> parameterList; // into pointers and values, whose memory moves with this object
};

} // namespace smelt::runtime::cuda
