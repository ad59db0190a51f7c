// The header of a safetensors file: 8 bytes of header length N (little-endian), N bytes of JSON
// {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ...}, then the data, which the
// tensors cover without holes or overlaps.
#pragma once

#include "runtime/src/Status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace smelt::runtime {

struct TensorEntry {
  std::string_view name;
  std::string_view dtype; // as the file spells it: "F32", "BF16", ...
  std::span<const uint64_t> shape;
  uint64_t begin = 0, end = 0; // bytes from the start of the file

  bool hasShape(std::span<const uint64_t> other) const {
    return std::equal(shape.begin(), shape.end(), other.begin(), other.end());
  }
};

// Its texts lie in the file, or in the header itself, which moves but is not copied.
struct SafeTensorsHeader {
  SafeTensorsHeader() = default;
  SafeTensorsHeader(SafeTensorsHeader &&) = default;
  SafeTensorsHeader &operator=(SafeTensorsHeader &&) = default;

  std::vector<TensorEntry> tensors; // in file order of the JSON
  std::unordered_set<std::string_view> names;
  std::map<std::string, std::string> metadata; // "__metadata__"
  uint64_t dataStart = 0;                      // bytes from the start of the file

  std::vector<uint64_t> dims;      // of all shapes
  std::deque<std::string> decoded; // names that are escaped in the file
};

// SMELT_weights, listing every problem, unless the whole header is sound and every tensor lies in `bytes`.
// `bytes` must outlive the header; `name` appears in messages.
Result<SafeTensorsHeader> parseSafeTensors(const std::string &name, std::span<const std::byte> bytes);

// Bytes per element; 0 for an unknown dtype.
uint64_t safeTensorsElementSize(std::string_view dtype);

} // namespace smelt::runtime
