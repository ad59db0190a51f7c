// Compiles one kernel to PTX and runs its stages on the test device, with weights packed as the runtime packs
// them.
#pragma once

#include "compiler/Codegen/CUDA/CompileKernels.h"
#include "tests/support/cuda/TestDevice.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace smelt::codegen::test {

using Floats = std::vector<float>;
using Params = std::map<std::string, int64_t>;

// The request for a role; the name tells the parameters.
cuda::KernelRequest request(const std::string &role, cuda::StepLength length, const Params &params);
inline cuda::KernelRequest brief(const std::string &role, const Params &params) {
  return request(role, cuda::StepLength::brief, params);
}

// The sizes of a step, which grids are formulas of.
struct StepSizes {
  int64_t tokens = 1, logit_rows = 0, positions = 0;
};

int64_t evaluate(const cuda::GridSize &size, const StepSizes &step);

// One kernel, loaded on the test device.
class DeviceKernel {
public:
  // `edit` changes the PTX before it is loaded.
  explicit DeviceKernel(const cuda::KernelRequest &request, const std::string &chip = "sm_90a",
                        const std::function<void(std::string &ptx)> &edit = {});
  // Runs all stages; scratch is NaN at first. Fails the test if a stage leaves a ticket behind.
  void run(const std::vector<uint64_t> &bindings, const std::vector<int32_t> &constants,
           const StepSizes &step) const;
  const std::string &ptx() const { return compiled.ptx; }
  const cuda::CompiledKernel &kernel() const { return compiled.kernels.front(); }

private:
  cuda::CompiledTarget compiled;
  std::unique_ptr<tests::TestModule> module;
};

tests::DeviceBuffer uploadFloats(const Floats &values);
tests::DeviceBuffer uploadInts(const std::vector<int32_t> &values);
// Memory the kernel is to fill: NaN as f32, -1 as i32.
tests::DeviceBuffer blank(size_t bytes);

inline int32_t bitsOf(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
uint16_t roundToBf16(float value);
float bf16ToFloat(uint16_t bits);

// Deterministic normal values.
Floats randomFloats(size_t count, uint32_t seed, float scale = 1.0f);

// What kernels have read of a matrix, or of several of one shape, since countAccesses().
struct WeightTraffic {
  int64_t bytes = 0;         // loaded, elements of the matrix and padding together
  int64_t padding_bytes = 0; // of these
  int64_t unread_bytes = 0;  // of elements that nobody has loaded
  int64_t repeated_rows = 0; // that were loaded more than once, in part or as a whole
};

// A bf16 matrix, or several of one shape, as numbers and on the device.
class Weights {
public:
  enum class Layout { vector, rows, tiles };
  Weights(Layout layout, int64_t rows, int64_t columns, uint32_t seed, float scale = 1.0f,
          float offset = 0.0f, int64_t matrices = 1);
  uint64_t address() const { return buffer.address(); }
  float operator()(int64_t row, int64_t column) const { return at(0, row, column); }
  float at(int64_t matrix, int64_t row, int64_t column) const {
    return values[(matrix * rows + row) * columns + column];
  }
  float operator[](int64_t i) const { return values[i]; }
  void countAccesses() { buffer.countAccesses(); }
  WeightTraffic traffic() const;

private:
  // Where an element lies on the device, in elements.
  int64_t place(int64_t matrix, int64_t row, int64_t column) const;

  Layout layout;
  int64_t rows, columns, matrices;
  Floats values;
  tests::DeviceBuffer buffer;
};

// |a - b| / |b| in the 2-norm; infinite if `a` holds a NaN.
double relativeError(const Floats &a, const std::vector<double> &b);

// RMSNorm of rows of x.
std::vector<double> normalised(const Floats &x, int64_t rows, int64_t width, const Weights &weight,
                               double eps);

} // namespace smelt::codegen::test
