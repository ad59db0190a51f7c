// NumPy's .npy files: little-endian, C order.
#pragma once

#include "runtime/src/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace smelt::runtime {

enum class NpyType { f32, i32, i64 };

struct NpyArray {
  NpyType type = NpyType::f32;
  std::vector<uint64_t> shape;     // 1 to 3 dimensions, which may be 0
  std::span<const std::byte> data; // within the bytes parsed, maybe unaligned
};

// Format versions 1.0, 2.0 and 3.0. SMELT_input when `bytes` is not such an array or has another type, order
// or size; `name` appears in messages.
Result<NpyArray> parseNpy(const std::string &name, std::span<const std::byte> bytes);

// What goes before the data of an array, padded so that the data is 64-byte aligned.
std::string npyHeader(NpyType type, std::span<const uint64_t> shape);

} // namespace smelt::runtime
