// Reads safetensors files for compiler-side tools. Strict: a file is either sound or refused with every
// reason.
#pragma once

#include "smelt/status.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace smelt::checkpoint {

// Why something could not be read: the exit code it stands for, and text that names the file.
struct ReadError {
  smelt_status status = SMELT_internal;
  std::string message;
};

template <typename T> using ReadResult = std::variant<T, ReadError>;

struct TensorView {
  std::string dtype; // as the file spells it: "F32", "BF16", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes; // little-endian, not aligned; lives as long as the file
};

// Bytes of one element; 0 for a dtype that is unknown.
uint64_t elementSize(const std::string &dtype);

// A memory-mapped file.
class SafeTensorsFile {
public:
  static ReadResult<SafeTensorsFile> open(const std::string &path);

  const std::string &path() const { return file_path; }
  uint64_t fileSize() const { return mapping_size; }
  const std::map<std::string, TensorView> &tensors() const { return views; }
  const std::map<std::string, std::string> &metadata() const { return metadata_entries; }

private:
  std::string file_path;
  std::shared_ptr<const std::byte> mapping;
  uint64_t mapping_size = 0;
  std::map<std::string, TensorView> views;
  std::map<std::string, std::string> metadata_entries;
};

} // namespace smelt::checkpoint
