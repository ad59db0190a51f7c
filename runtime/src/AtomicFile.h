// An output file that is there whole or not at all.
#pragma once

#include "runtime/src/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace smelt::runtime {

// Writes go to a temporary file beside the target, which commit() renames over it; without commit() the
// temporary is removed and an older target stays as it was. A target that exists and is not a regular file (a
// pipe, a device) is written directly.
class AtomicFile {
public:
  // SMELT_io when the temporary cannot be made: call before long work, to fail early.
  static Result<AtomicFile> create(const std::string &path);

  AtomicFile(AtomicFile &&other) noexcept { swap(other); }
  AtomicFile &operator=(AtomicFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~AtomicFile();

  // Claims the space of a regular file now, so that a full disk is found before long work. SMELT_io. Does
  // nothing where the file system cannot.
  Status reserve(uint64_t bytes);
  // Appends.
  Status write(std::span<const std::byte> bytes);
  // Any thread, in any order; not to be mixed with write().
  Status writeAt(uint64_t offset, std::span<const std::byte> bytes);
  // Flushes to the disk and renames. SMELT_io also when the disk turns out to be full now.
  Status commit();
  // The same without the flush: for what is large and can be made again, should the machine lose power now.
  Status commitUnflushed();

private:
  AtomicFile() = default;
  void swap(AtomicFile &other) noexcept;
  Status putInPlace();
  Status failed(const char *what, int error) const;

  std::string target;    // as given, for messages
  std::string final;     // with symbolic links followed
  std::string temporary; // empty when the target is written directly
  int descriptor = -1;
};

} // namespace smelt::runtime
