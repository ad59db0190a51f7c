// Hash weights: `--weights splat:SEED` fills every tensor of a model with values that any program can repeat
// from the seed, the tensor's name and the element's index alone, so that a model of any size can be run and
// timed without a file. A GPU generates them in its own memory (cuda/SplatKernel.h).
//
// All numbers are unsigned and wrap at their width:
//   h = 0xcbf29ce484222325; for each byte of the name: h = (h ^ byte) * 0x100000001b3     64 bits, FNV-1a
//   h = h + seed * 0x9e3779b97f4a7c15; h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
//   h = (h ^ h >> 27) * 0x94d049bb133111eb; key = h ^ h >> 31
//   x = index * 0x9e3779b1 + low half of key; x = (x ^ x >> 16) * 0x7feb352d;              32 bits
//   x = (x ^ x >> 15) + high half of key; x = x * 0x846ca68b; x = x ^ x >> 16
//   n = (x & 0xffff) + (x >> 16) - 65535                                  triangular, -65535..65535
//   value = bf16(f32(f32(n) * scale) + mean)                              each step rounded to nearest even
// index counts the elements of the tensor in row-major order, modulo 2^32. scale is f32(deviation /
// sqrt((2^32 - 1) / 6)). A name that holds "norm" has mean 1 and deviation 0; one that ends in ".bias"
// deviation 0.1; one that holds "embed_tokens" deviation 1; any other 1 / sqrt(columns), times 0.1 if it
// holds "o_proj" and 0.5 if it holds "down_proj", so that the residual stream stays dominated by the token
// and the routing of an untrained model even. Weights of f32 models hold the same bf16 values, and
// those of i8 models are made of them.
#pragma once

#include "runtime/src/Artifact.h"
#include "runtime/src/SystemMemory.h"

#include <vector>

namespace smelt::runtime {

struct SplatTensor {
  uint64_t key = 0;
  float scale = 0, mean = 0;
};

SplatTensor splatTensor(uint64_t seed, std::string_view name, std::span<const uint64_t> shape);
// Element `index` as bf16 bits.
uint16_t splatValue(const SplatTensor &tensor, uint32_t index);
// Writes elements [first, first + count) to `out`: as f32 when elementBytes is 4, as bf16 when it is 2.
void fillSplat(const SplatTensor &tensor, uint64_t elementBytes, uint64_t first, uint64_t count,
               std::byte *out);

// The seed of "splat:SEED"; nullopt when `path` does not start so. SMELT_usage when SEED is no number.
std::optional<Result<uint64_t>> parseSplat(std::string_view path);

// Hash weights in memory, for the CPU: those that kernels read as a file would have them. Packing generates
// the others piece by piece.
class SplatWeights {
public:
  // SMELT_memory, with both numbers, when they do not fit.
  static Result<SplatWeights> generate(const artifact::Manifest &manifest, uint64_t seed, uint32_t threads);

  // By weight: [layers][experts]; null for tensors with a layout of their own.
  const std::vector<std::vector<const void *>> &pointers() const { return all; }

private:
  Memory memory;
  std::vector<std::vector<const void *>> all;
};

} // namespace smelt::runtime
