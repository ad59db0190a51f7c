// The JSON header of a safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::checkpoint {

struct TensorEntry {
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0; // bytes from the start of the data
};

struct SafeTensorsHeader {
  std::map<std::string, TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads and checks the header of a file with `data_size` bytes after it: known dtypes, sizes that fit shapes,
// tensors that cover the data without holes or overlaps, no name twice. Every problem goes into `problems`.
SafeTensorsHeader parseHeader(std::string_view json, uint64_t data_size, std::vector<std::string> &problems);

} // namespace smelt::checkpoint
