// Matrix products by cuBLASLt, for steps that are long enough to gain from it.
#pragma once

#include "runtime/src/MemoryPlan.h"
#include "runtime/src/cuda/CublasApi.h"
#include "runtime/src/cuda/Device.h"

#include <array>
#include <functional>
#include <map>
#include <memory>

namespace smelt::runtime::cuda {

// result[r][n] = scale * sum over k of activations[r][k] * weight[n][k], + addend[r][n] if there is one;
// result and addend may be one.
struct Gemm {
  uint64_t rows = 0, outputs = 0, depth = 0;                         // r, n and k
  uint64_t activationStride = 0, weightStride = 0, resultStride = 0; // elements; of the addend as well
  DevicePtr activations = 0, weight = 0, result = 0, addend = 0;     // bf16, bf16, f32, f32 or 0
  float scale = 1;
};

class GemmLibrary {
public:
  // Fewer rows are better served by kernels of our own.
  static constexpr uint64_t leastRows = 32;
  // Device memory it may use while a product runs.
  static constexpr uint64_t workspaceBytes = 32 << 20;

  // Null when our kernels are to multiply: they were asked for, or there is no cuBLASLt and it was not asked
  // for. SMELT_unsupported when the one that was asked for, by `choice` or SMELT_CUBLAS_LIBRARY, cannot be
  // used; `notice` gets a sentence when one that was merely found cannot.
  static Result<std::unique_ptr<GemmLibrary>> open(DevicePointer device, GemmChoice choice,
                                                   const std::function<void(const std::string &)> &notice);
  ~GemmLibrary();

  // Chooses an algorithm for the sizes and alignments of a product, once. False when cuBLASLt has none for
  // them: our kernels then multiply. SMELT_unsupported when that is so and cuBLASLt was asked for;
  // SMELT_internal when it fails.
  Result<bool> prepare(const Gemm &gemm);
  // Puts a product that has been prepared on the stream. Nothing is allocated: a stream may be captured.
  Status run(const Gemm &gemm, DevicePtr workspace, Stream stream);
  // "cuBLASLt 13.1.0", and how many products it had no algorithm for.
  std::string describe() const;

private:
  struct Plan;
  using Key = std::array<uint64_t, 11>;
  static Key keyOf(const Gemm &gemm);

  GemmLibrary(DevicePointer device, const CublasApi &api, GemmChoice choice);
  // Null: there is no algorithm.
  Result<std::unique_ptr<Plan>> choose(const Gemm &gemm) const;
  std::string problemOf(const Gemm &gemm, const std::string &what) const;

  DevicePointer device;
  const CublasApi &api;
  GemmChoice choice;
  CublasLt handle = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans; // null: there is no algorithm
};

} // namespace smelt::runtime::cuda
