#include "runtime/src/AtomicFile.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace smelt::runtime {
namespace {

// The target of symbolic links, so that renaming replaces the file and not the link.
std::string followLinks(const std::string &path) {
  char *resolved = realpath(path.c_str(), nullptr);
  std::string out = resolved ? resolved : path;
  std::free(resolved);
  return out;
}

} // namespace

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  AtomicFile file;
  file.target = path;
  struct stat info;
  bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    return file.failed("opened", EISDIR);
  }
  if (exists && !S_ISREG(info.st_mode)) {
    file.descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    return file.descriptor < 0 ? Result<AtomicFile>(file.failed("opened", errno)) : std::move(file);
  }
  if (exists && access(path.c_str(), W_OK) != 0) {
    return file.failed("opened", errno); // renaming over a write-protected file would succeed
  }
  file.final = exists ? followLinks(path) : path;
  size_t slash = file.final.rfind('/') + 1; // 0 when there is none
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string name = fmt::format("{}.{}.{}-{}.tmp", file.final.substr(0, slash), file.final.substr(slash),
                                   getpid(), attempt);
    file.descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.descriptor >= 0) {
      file.temporary = std::move(name);
      return file;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return file.failed("created", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor >= 0) {
    close(descriptor);
  }
  if (!temporary.empty()) {
    unlink(temporary.c_str());
  }
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return failed("written", errno);
    }
    bytes = bytes.subspan(size_t(count));
  }
  return success();
}

Status AtomicFile::writeAt(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::pwrite(descriptor, bytes.data(), bytes.size(), off_t(offset));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return failed("written", errno);
    }
    offset += uint64_t(count);
    bytes = bytes.subspan(size_t(count));
  }
  return success();
}

Status AtomicFile::reserve(uint64_t bytes) {
  // Not posix_fallocate: where the file system has no such call, that writes every block.
  if (temporary.empty() || bytes == 0 || ::fallocate(descriptor, 0, 0, off_t(bytes)) == 0) {
    return success();
  }
  if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR) {
    return success();
  }
  return fail(SMELT_io, fmt::format("{}: cannot be written: it needs {}: {}", target, formatBytes(bytes),
                                    errnoText(errno)));
}

Status AtomicFile::commit() {
  if (!temporary.empty() && fsync(descriptor) != 0) {
    return failed("written", errno);
  }
  return putInPlace();
}

Status AtomicFile::commitUnflushed() { return putInPlace(); }

Status AtomicFile::putInPlace() {
  int closed = close(std::exchange(descriptor, -1));
  if (closed != 0) {
    return failed("written", errno);
  }
  if (!temporary.empty() && rename(temporary.c_str(), final.c_str()) != 0) {
    return failed("put in place", errno);
  }
  temporary.clear();
  return success();
}

Status AtomicFile::failed(const char *what, int error) const {
  return fail(SMELT_io, fmt::format("{}: cannot be {}: {}", target, what, errnoText(error)));
}

void AtomicFile::swap(AtomicFile &other) noexcept {
  std::swap(target, other.target);
  std::swap(final, other.final);
  std::swap(temporary, other.temporary);
  std::swap(descriptor, other.descriptor);
}

} // namespace smelt::runtime
