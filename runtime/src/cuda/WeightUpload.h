// Weights from their mapped files into the memory of a GPU, in its layouts.
#pragma once

#include "runtime/src/WeightBinding.h"
#include "runtime/src/cuda/Device.h"
#include "runtime/src/cuda/DevicePlan.h"

#include <functional>

namespace smelt::runtime::cuda {

// Writes rows [firstRow, endRow) of a bf16 matrix in its packed form to `out`, which holds what the packed
// matrix has from row firstRow on. `out` must be zero where the padding is. For `tiles` firstRow is a
// multiple of 64, and endRow too unless it is the last. Padding rows belong to the last piece.
void packRows(const PackedShape &shape, const uint16_t *tensor, uint64_t firstRow, uint64_t endRow,
              std::byte *out);

// Of each of the two pinned buffers, unless one piece of a tensor takes more.
constexpr uint64_t defaultStagingBytes = uint64_t(64) << 20;

// Copies every tensor to `memory`: `threads` workers pack into two pinned buffers in turn, and while the GPU
// reads one they fill the other. `progress` returns false to stop: SMELT_interrupted.
Status uploadWeights(DevicePointer device, const BoundWeights &weights, const DevicePlan &plan,
                     DevicePtr memory, Stream stream, uint32_t threads,
                     const std::function<bool(uint64_t done, uint64_t total)> &progress,
                     uint64_t stagingBytes = defaultStagingBytes);

} // namespace smelt::runtime::cuda
