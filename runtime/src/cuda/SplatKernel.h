// Hash weights (runtime/src/Splat.h) generated in the memory of a GPU, in its layouts.
#pragma once

#include "runtime/src/cuda/Device.h"
#include "runtime/src/cuda/DevicePlan.h"

#include <functional>
#include <string>

namespace smelt::runtime::cuda {

// The kernel as PTX.
std::string splatPtx();

// Fills the weights' memory, which starts at `memory`. `progress` returns false to stop: SMELT_interrupted.
Status splatWeights(DevicePointer device, const artifact::Manifest &manifest, const DevicePlan &plan,
                    uint64_t seed, DevicePtr memory, Stream stream,
                    const std::function<bool(uint64_t done, uint64_t total)> &progress);

} // namespace smelt::runtime::cuda
