// Safetensors files taken apart, changed and put together again, for tests of what readers refuse.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace smelt::tests {

struct StoredTensor {
  std::string dtype; // "F32", "BF16", ...
  std::vector<int64_t> shape;
  std::string bytes;
};

using TensorMap = std::map<std::string, StoredTensor>;

TensorMap readSafetensors(const std::string &path);
void writeSafetensors(const std::string &path, const TensorMap &tensors);

// F32 tensors rounded to BF16, to nearest and ties to even; others as they are.
TensorMap roundedToBf16(const TensorMap &tensors);

std::string readBytes(const std::string &path);
void writeBytes(const std::string &path, const std::string &bytes);

} // namespace smelt::tests
