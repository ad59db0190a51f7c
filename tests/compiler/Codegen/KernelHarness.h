// Compiles one kernel for every ISA level this machine has and runs it on plain memory with several workers.
#pragma once

#include "compiler/Codegen/CPU/CompileKernels.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace smelt::codegen::test {

// Levels of the artifact that this machine can execute. Empty on a machine without AVX2.
std::vector<const cpu::IsaLevel *> runnableLevels();

// One compiled kernel in executable memory.
class LoadedKernel {
public:
  LoadedKernel(const KernelDesc &kernel, const cpu::IsaLevel &level);
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel &) = delete;
  LoadedKernel &operator=(const LoadedKernel &) = delete;

  // Runs with the given number of workers; scratch is filled with NaN first.
  void run(const std::vector<void *> &bindings, const std::vector<int32_t> &constants, int workers) const;

private:
  void *memory = nullptr;
  size_t size = 0, entry = 0, scratch = 0;
};

inline int32_t bitsOf(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

using Floats = std::vector<float>;

// Deterministic normal values.
Floats randomFloats(size_t count, uint32_t seed, float scale = 1.0f);

// Weights in the type a kernel reads, at an address that is aligned to nothing; `values` are what the bytes
// mean.
class Weights {
public:
  Weights(WeightType type, size_t count, uint32_t seed, float scale = 1.0f, float offset = 0.0f);
  // A matrix, which may be of i8: random codes, and scales for 32 of them that differ by up to 16 times.
  static Weights matrix(WeightType type, size_t rows, size_t columns, uint32_t seed, float scale = 1.0f);
  void *data() { return bytes.data() + 1; }
  // A matrix of `rows` rows in layout panel16, aligned as the runtime aligns it.
  void *packed(size_t rows);
  float operator[](size_t i) const { return values[i]; }
  Floats values;

private:
  void *alignedPanels(size_t bytes);
  void *packedCodes(size_t rows);

  WeightType type;
  std::vector<char> bytes, packedBytes;
  std::vector<uint16_t> scales; // of i8: [rows][blocks of 32]
};

// What norms and biases beside matrices of a type are.
inline WeightType vectorType(WeightType type) { return type == WeightType::i8 ? WeightType::bf16 : type; }

// What a dot product sees of a row: activations rounded to bf16 where the level multiplies in bf16, and to
// 16-bit integers of one exponent where weights have 8 bits.
std::vector<double> asOperands(const Floats &row, const cpu::IsaLevel &level, WeightType type);

// How far results may lie from those of a row that was itself computed in f32, and may round the other way.
double operandTolerance(const cpu::IsaLevel &level, WeightType type);

// The nearest bf16, ties to even.
uint16_t roundToBf16(float value);
float fromBf16(uint16_t half);

// |a - b| / |b| in the 2-norm; infinite if `a` holds a NaN.
double relativeError(const Floats &a, const std::vector<double> &b);

using VariantBody = std::function<void(const cpu::IsaLevel &, WeightType, int workers)>;
// Runs `body` for every runnable level, the types that all weights may have, and 1, 2 and 3 workers.
void forEveryVariant(const VariantBody &body);
// The same with i8, which matrices may have.
void forEveryMatrixVariant(const VariantBody &body);

} // namespace smelt::codegen::test
