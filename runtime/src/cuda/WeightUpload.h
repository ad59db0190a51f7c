// Weights from their mapped files into the memory of a GPU, in its layouts.
#pragma once

#include "runtime/src/WeightBinding.h"
#include "runtime/src/cuda/Device.h"
#include "runtime/src/cuda/DevicePlan.h"

#include <functional>

namespace smelt::runtime::cuda {

// Brings every tensor to `memory`. `threads` workers copy the bytes of the files into two pinned buffers in
// turn. Of a full one the GPU copies tensors that keep their form to their place, the others to a buffer of
// its own, from which a kernel packs them while the next pinned buffer is filled and copied. All four buffers
// have plan.stagingBytes and are freed at the end. `progress` returns false to stop: SMELT_interrupted.
Status uploadWeights(DevicePointer device, const BoundWeights &weights, const DevicePlan &plan,
                     DevicePtr memory, Stream stream, uint32_t threads,
                     const std::function<bool(uint64_t done, uint64_t total)> &progress);

} // namespace smelt::runtime::cuda
