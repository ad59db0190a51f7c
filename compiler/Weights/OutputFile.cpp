#include "compiler/Weights/OutputFile.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace smelt::weights {

namespace {

Failure ioFailure(const std::string &path, const char *action, int error) {
  return {SMELT_io, fmt::format("cannot {} '{}': {}", action, path, std::strerror(error))};
}

std::filesystem::path folderOf(const std::string &path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

std::string fileName(const std::string &path) { return std::filesystem::path(path).filename().string(); }

} // namespace

OutputFile::OutputFile(OutputFile &&other) noexcept
    : destination(std::move(other.destination)), temporary(std::move(other.temporary)),
      descriptor(other.descriptor) {
  other.descriptor = -1;
  other.temporary.clear();
}

OutputFile::~OutputFile() {
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (!temporary.empty()) {
    ::unlink(temporary.c_str());
  }
}

MaybeFailure OutputFile::open() {
  std::error_code error;
  if (std::filesystem::is_symlink(destination, error)) {
    std::filesystem::path target = std::filesystem::weakly_canonical(destination, error);
    if (!error) {
      destination = target.string();
    }
  }
  struct stat existing;
  if (::stat(destination.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
    const char *what = S_ISDIR(existing.st_mode) ? "it is a folder" : "it is not a regular file";
    return Failure{SMELT_io, fmt::format("cannot write '{}': {}", destination, what)};
  }
  return createTemporary();
}

MaybeFailure OutputFile::createTemporary() {
  std::string base =
      (folderOf(destination) / fmt::format(".{}.{}", fileName(destination), ::getpid())).string();
  // Exclusive, so that nothing planted under the name is written through; a few tries, because a killed
  // process with the same number may have left one.
  for (int attempt = 0; attempt < 16; ++attempt) {
    std::string name = fmt::format("{}.{}.tmp", base, attempt);
    descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      temporary = std::move(name);
      return std::nullopt;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return ioFailure(destination, "create", errno);
}

MaybeFailure OutputFile::reserve(uint64_t bytes) {
  // Not posix_fallocate: where the file system has no such call it writes every block.
  if (bytes == 0 || ::fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) == 0) {
    return std::nullopt;
  }
  if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR) {
    return std::nullopt;
  }
  int error = errno;
  return Failure{SMELT_io, fmt::format("cannot write '{}': it needs {}: {}", destination, formatBytes(bytes),
                                       std::strerror(error))};
}

MaybeFailure OutputFile::writeAt(uint64_t offset, const void *data, uint64_t bytes) {
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = ::pwrite(descriptor, next, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return ioFailure(destination, "write", errno);
    }
    next += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<uint64_t>(written);
  }
  return std::nullopt;
}

MaybeFailure OutputFile::commit() {
  // Network file systems report a failed write only here.
  int closed = ::close(descriptor);
  descriptor = -1;
  if (closed != 0) {
    return ioFailure(destination, "write", errno);
  }
  if (::rename(temporary.c_str(), destination.c_str()) != 0) {
    return ioFailure(destination, "create", errno);
  }
  temporary.clear();
  return std::nullopt;
}

MaybeFailure checkFreeSpace(const std::string &path, uint64_t bytes) {
  std::string folder = folderOf(path).string();
  struct statvfs space;
  if (::statvfs(folder.c_str(), &space) != 0) {
    return ioFailure(path, "create", errno);
  }
  uint64_t available = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
  if (available < bytes) {
    return Failure{SMELT_io, fmt::format("cannot write '{}': it needs {}, but '{}' has {} free", path,
                                         formatBytes(bytes), folder, formatBytes(available))};
  }
  return std::nullopt;
}

std::string formatBytes(uint64_t bytes) {
  constexpr std::array units = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 999.5 would round up to a four-digit "1000".
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

} // namespace smelt::weights
