#include "runtime/src/MappedFile.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace smelt::runtime {

Result<MappedFile> MappedFile::open(const std::string &path) {
  MappedFile file;
  file.name = path;
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor < 0) {
    return fail(SMELT_io, fmt::format("{}: cannot be opened: {}", path, errnoText(errno)));
  }
  struct stat info;
  if (fstat(file.descriptor, &info) != 0) {
    return fail(SMELT_io, fmt::format("{}: cannot be read: {}", path, errnoText(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(SMELT_io, fmt::format("{}: is {}, not a regular file", path,
                                      S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe"));
  }
  file.id = {info.st_dev, info.st_ino};
  file.modifiedAt = int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (info.st_size == 0) {
    return file;
  }
  void *base = mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, file.descriptor, 0);
  if (base == MAP_FAILED) {
    return fail(SMELT_io, fmt::format("{}: cannot be mapped ({}): {}", path,
                                      formatBytes(uint64_t(info.st_size)), errnoText(errno)));
  }
  file.base = base;
  file.length = size_t(info.st_size);
  return file;
}

MappedFile::~MappedFile() {
  if (base) {
    munmap(base, length);
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
}

uint64_t MappedFile::currentSize() const {
  struct stat info;
  return fstat(descriptor, &info) == 0 ? uint64_t(info.st_size) : 0;
}

void MappedFile::swap(MappedFile &other) noexcept {
  std::swap(name, other.name);
  std::swap(base, other.base);
  std::swap(length, other.length);
  std::swap(descriptor, other.descriptor);
  std::swap(id, other.id);
  std::swap(modifiedAt, other.modifiedAt);
}

} // namespace smelt::runtime
