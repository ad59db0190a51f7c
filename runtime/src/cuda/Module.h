// The code of a device target on a GPU: which target of an artifact fits it, and its functions.
#pragma once

#include "runtime/src/Artifact.h"
#include "runtime/src/cuda/Device.h"

namespace smelt::artifact {
struct DeviceTarget;
} // namespace smelt::artifact

namespace smelt::runtime::cuda {

// The target for a GPU of this compute capability: the one made for it alone, or else the newest it can run.
// SMELT_unsupported says what `gpu` is and what the artifact holds.
Result<const artifact::DeviceTarget *> chooseTarget(const Artifact &artifact, uint32_t computeCapability,
                                                    std::string_view gpu);
// The target of this name, "cuda:sm_90a". SMELT_unsupported lists what the artifact holds.
Result<const artifact::DeviceTarget *> findTarget(const Artifact &artifact, std::string_view name);

bool runsOn(const artifact::DeviceTarget &target, uint32_t computeCapability);

class Module {
public:
  // Loads the first image the GPU takes: machine code for it, or PTX that the driver assembles.
  // SMELT_unsupported tells what the driver said about each.
  static Result<Module> load(DevicePointer device, const Artifact &artifact,
                             const artifact::DeviceTarget &target);

  Module() = default;
  // SMELT_artifact when there is none of this name; asks for `sharedBytes` of dynamic shared memory.
  Result<Function> function(const char *name, uint32_t sharedBytes) const;

private:
  DevicePointer device;
  OwnedModule handle;
};

// Loads an image of any kind; PTX ends with a zero byte. The message has the assembler's log, if it left one.
Result<OwnedModule> loadImage(DevicePointer device, const void *image, std::string_view what);

} // namespace smelt::runtime::cuda
