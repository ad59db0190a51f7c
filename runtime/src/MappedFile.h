// A regular file mapped read-only.
#pragma once

#include "runtime/src/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace smelt::runtime {

class MappedFile {
public:
  // SMELT_io: cannot be opened, is not a regular file, or cannot be mapped. An empty file maps to no bytes.
  static Result<MappedFile> open(const std::string &path);

  MappedFile(MappedFile &&other) noexcept { swap(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte *>(base), length}; }
  const std::string &path() const { return name; }
  // Device and inode: two paths of one file compare equal.
  std::pair<uint64_t, uint64_t> identity() const { return id; }
  // When the file was last written before it was opened, in nanoseconds since 1970.
  int64_t modified() const { return modifiedAt; }
  // Bytes in the file now; less than bytes().size() when it was cut short after mapping, in which case
  // touching the missing pages would kill the process.
  uint64_t currentSize() const;

private:
  MappedFile() = default;
  void swap(MappedFile &other) noexcept;

  std::string name;
  void *base = nullptr;
  size_t length = 0;
  int descriptor = -1;
  std::pair<uint64_t, uint64_t> id;
  int64_t modifiedAt = 0;
};

} // namespace smelt::runtime
