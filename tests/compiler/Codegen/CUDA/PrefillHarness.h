// Runs one kernel of the any-length program on the look-alike device: compiles it, allocates scratch and
// tickets, launches its stages as the runtime would.
#pragma once

#include "compiler/Codegen/CUDA/CompileKernels.h"
#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <cstring>
#include <string>
#include <vector>

namespace smelt::codegen::cuda::test {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Ints = std::vector<int32_t>;

// bf16 by rounding to nearest even, and back.
uint16_t bf16Bits(float value);
float bf16Value(uint16_t bits);
inline float roundBf16(float value) { return bf16Value(bf16Bits(value)); }

int32_t bitsOf(float value);

// Deterministic normal values.
Floats randomFloats(size_t count, uint32_t seed, float scale = 1.0f, float offset = 0.0f);
// The same, rounded to bf16.
Floats randomWeights(size_t count, uint32_t seed, float scale = 1.0f, float offset = 0.0f);

// Weights as the device keeps them (WeightPacking.h).
std::vector<uint16_t> packVector(const Floats &values);
std::vector<uint16_t> packRows(const Floats &values, int64_t rows, int64_t columns);
std::vector<uint16_t> packTiles(const Floats &values, int64_t experts, int64_t rows, int64_t columns);

// x / sqrt(mean(x^2) + eps) * weight of one row.
Doubles normalise(const float *x, const Floats &weight, float epsilon);

// |a - b| / |b| in the 2-norm; infinite if `a` holds a NaN.
double relativeError(const Floats &a, const Doubles &b);

// One argument of a kernel: bytes that go to the device and come back after the launch.
class Buffer {
public:
  template <typename T> explicit Buffer(const std::vector<T> &values) : bytes(values.size() * sizeof(T)) {
    if (!bytes.empty()) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    }
  }
  template <typename T> std::vector<T> as() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
  std::vector<uint8_t> bytes;
};

struct StepSizes {
  int64_t tokens = 0, logit_rows = 0, capacity = 0;
};

// Compiles `kernel` for `chip` (once a process for equal names) and runs it. Buffers hold what the device
// left in them afterwards; one buffer may occur twice. Scratch begins as NaN, tickets as zero and must end
// so.
void runKernel(const KernelDesc &kernel, const std::string &chip, const std::vector<Buffer *> &bindings,
               const Ints &constants, const StepSizes &sizes);

// Chips with kernels of their own among those the look-alike runs.
const std::vector<std::string> &testedChips();

} // namespace smelt::codegen::cuda::test
