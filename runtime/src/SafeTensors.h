// The header of a safetensors file: 8 bytes of header length N (little-endian), N bytes of JSON
// {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ...}, then the data, which the
// tensors cover without holes or overlaps.
#pragma once

#include "runtime/src/Status.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace smelt::runtime {

struct TensorEntry {
  std::string name;
  std::string dtype; // as the file spells it: "F32", "BF16", ...
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0; // bytes from the start of the file
};

struct SafeTensorsHeader {
  std::vector<TensorEntry> tensors;            // in file order of the JSON
  std::map<std::string, std::string> metadata; // "__metadata__"
  uint64_t dataStart = 0;                      // bytes from the start of the file
};

// SMELT_weights, listing every problem, unless the whole header is sound and every tensor lies in `bytes`.
// `name` appears in messages.
Result<SafeTensorsHeader> parseSafeTensors(const std::string &name, std::span<const std::byte> bytes);

// Bytes per element; 0 for an unknown dtype.
uint64_t safeTensorsElementSize(const std::string &dtype);

} // namespace smelt::runtime
