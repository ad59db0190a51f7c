// A file that appears under its name only when it is complete: written under a temporary name in the same
// folder, renamed by commit(), removed when it goes out of scope uncommitted.
#pragma once

#include "compiler/Weights/Failure.h"

#include <cstdint>
#include <string>

namespace smelt::weights {

class OutputFile {
public:
  // Symbolic links are followed, so that the link survives. Refuses anything that exists and is not a regular
  // file: renaming over a device would replace the device.
  explicit OutputFile(std::string path) : destination(std::move(path)) {}
  ~OutputFile();
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&) = delete;

  MaybeFailure open();
  // Claims the space now, so that a full disk is found before the work. Where the file system cannot, this
  // does nothing and the writes find out.
  MaybeFailure reserve(uint64_t bytes);
  // Any thread, any order.
  MaybeFailure writeAt(uint64_t offset, const void *data, uint64_t bytes);
  // Gives the file its name.
  MaybeFailure commit();

  const std::string &path() const { return destination; }

private:
  MaybeFailure createTemporary();

  std::string destination;
  std::string temporary;
  int descriptor = -1;
};

// SMELT_io unless the folder of `path` has `bytes` free.
MaybeFailure checkFreeSpace(const std::string &path, uint64_t bytes);

// "7.8 GB": decimal units, three significant digits.
std::string formatBytes(uint64_t bytes);

} // namespace smelt::weights
