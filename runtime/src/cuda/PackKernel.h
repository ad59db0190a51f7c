// Tensors as their files hold them into the layouts of a GPU, in its memory.
#pragma once

#include "runtime/src/cuda/Device.h"
#include "runtime/src/cuda/WeightLayout.h"

#include <string>

namespace smelt::runtime::cuda {

// The kernel as PTX.
std::string packPtx();

// Matrices of one shape, at equal distances.
struct PackJob {
  DevicePtr from = 0;                    // the first, row-major without padding; a multiple of 16
  DevicePtr to = 0;                      // the first, packed; a multiple of 16
  uint64_t fromStride = 0, toStride = 0; // bytes from one to the next, multiples of 16
  uint32_t count = 1;
  uint64_t rows = 0; // of each: those of the shape, or some of them from a multiple of its rowStep() on
};
constexpr uint32_t maxPackCount = 65535;

class PackKernel {
public:
  static Result<PackKernel> load(DevicePointer device);
  // SMELT_unsupported for 2^32 elements or more in one matrix.
  Status launch(const PackedShape &shape, const PackJob &job, Stream stream) const;

private:
  DevicePointer device;
  OwnedModule module;
  Function function = nullptr;
};

} // namespace smelt::runtime::cuda
