// Where everything of a session lies on a GPU: the size formulas of a device target evaluated for a session's
// options. Needs no GPU.
#pragma once

#include "runtime/src/ProgramTables.h"
#include "runtime/src/cuda/WeightLayout.h"

#include <span>

namespace smelt::runtime::cuda {

// Steps whose sampled tokens may be on their way to the host.
constexpr uint64_t sampledSlots = 4;

// Ticket counters of a stage, u32.
constexpr uint64_t ticketCount = 4096;

// The tensors of one weight: expert e of layer l at offset + l * layerStride + e * shape.bytes.
struct WeightPlace {
  PackedShape shape;
  uint64_t offset = 0, layerStride = 0; // bytes, into the weights' memory
};

struct RopeTablePlace {
  uint32_t dim = 0;
  double theta = 0;
  uint64_t offset = 0, bytes = 0; // into the tables' memory
};

struct ProgramPlan {
  ProgramTables tables;
  const artifact::DeviceProgram *program = nullptr;
  StepInterface interface;
  Extent extent = {};                 // of the largest step it runs in this session
  std::vector<uint64_t> offsets = {}; // by buffer: into the memory of state, tables or workspace, by its kind
  std::vector<uint64_t> strides = {}; // by buffer: bytes of one slot
  uint64_t inputBytes = 0;            // the workspace starts with the inputs of a step
};

struct DevicePlan {
  const artifact::DeviceTarget *target = nullptr;
  Extent extent; // of the largest step
  std::vector<WeightPlace> weights;
  std::vector<RopeTablePlace> ropeTables;
  std::vector<ProgramPlan> programs;
  uint64_t weightBytes = 0, stateBytes = 0, workspaceBytes = 0, tableBytes = 0;
  uint64_t scratchBytes = 0; // without the tickets
  uint64_t libraryBytes = 0; // workspace of a library of products; 0: our kernels multiply
  uint64_t inputBytes = 0;   // of any program; pinned on the host as well
  uint64_t logitBytes = 0;   // pinned on the host
  uint64_t sampledBytes = 0; // pinned on the host, all slots
  // While weights are loaded from files: of each of two buffers on the device, and of two on the host.
  uint64_t stagingBytes = 0;
  smelt_memory memory = {}; // the same, as reported to users
};

// About `wanted` bytes, no more than the weights have in their files, but enough for what is packed at once.
uint64_t stagingFor(std::span<const WeightPlace> weights, uint64_t fileBytes, uint64_t wanted);

// Of a session whose weights are made on the device: nothing is staged.
void withoutStaging(DevicePlan &plan);

// Blocks along one dimension in a step of this extent; more than 2^31 are told as 2^31.
uint64_t gridBlocks(const artifact::GridSize &size, const Extent &step);

// Whether a target has kernels whose products a library may take, and steps may be long enough for it.
bool hasLibraryForm(const artifact::DeviceTarget &target);
bool gainsFromLibrary(const artifact::DeviceTarget &target, const smelt_session_options &options);

// `options` resolved. SMELT_memory when the sizes overflow; SMELT_unsupported when the grid of a stage would
// exceed what CUDA launches. `withLibrary`: a library of products is to take what it can.
Result<DevicePlan> planDevice(const Artifact &artifact, const artifact::DeviceTarget &target,
                              const smelt_session_options &options, bool withLibrary = false);

// SMELT_memory, with all numbers, when the plan needs more than `available` bytes of the GPU.
Status checkFits(const DevicePlan &plan, const smelt_session_options &options, std::string_view gpu,
                 uint64_t available, uint64_t total);

} // namespace smelt::runtime::cuda
