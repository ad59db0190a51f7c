// Any bytes are a sound safetensors file, whose tensors lie within it, or are refused with a message. The
// header's length is mended, so that mutations of the JSON are not lost.
#include "runtime/src/SafeTensors.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

// Length of the JSON object that starts the text, by counting braces.
uint64_t objectLength(const std::vector<std::byte> &bytes, size_t start) {
  int depth = 0;
  for (size_t i = start; i < bytes.size(); ++i) {
    depth += bytes[i] == std::byte('{') ? 1 : bytes[i] == std::byte('}') ? -1 : 0;
    if (depth == 0) {
      return i + 1 - start;
    }
  }
  return bytes.size() - start;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace smelt::runtime;
  const auto *start = reinterpret_cast<const std::byte *>(data);
  std::vector<std::byte> bytes(start, start + size);
  if (size > 8 && data[0] % 8) { // one in eight keeps its own length
    uint64_t length = objectLength(bytes, 8);
    std::memcpy(bytes.data(), &length, sizeof length);
  }
  auto header = parseSafeTensors("fuzz.safetensors", bytes);
  if (!header.ok()) {
    require(header.status().code == SMELT_weights && !header.status().message.empty());
    return 0;
  }
  for (const TensorEntry &entry : header->tensors) {
    require(header->dataStart <= entry.begin && entry.begin <= entry.end && entry.end <= bytes.size());
  }
  return 0;
}
