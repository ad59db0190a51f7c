#include "runtime/src/SystemMemory.h"

#include "runtime/src/Cgroups.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <sys/mman.h>

namespace smelt::runtime {
namespace {

std::optional<uint64_t> readNumber(const std::string &path) {
  std::ifstream in(path);
  uint64_t value;
  return in >> value ? std::optional(value) : std::nullopt; // "max" is no number
}

// The sum of the named fields of a "name value" file.
uint64_t readFields(const std::string &path, std::initializer_list<std::string_view> names) {
  std::ifstream in(path);
  std::string name;
  uint64_t value, sum = 0;
  while (in >> name >> value) {
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      sum += value;
    }
  }
  return sum;
}

// The bytes of a line "name: 123 kB".
std::optional<uint64_t> readKilobytes(const char *path, const char *name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    unsigned long long kilobytes;
    if (line.starts_with(name) &&
        std::sscanf(line.c_str() + std::strlen(name), " %llu kB", &kilobytes) == 1) {
      return kilobytes * 1024;
    }
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char *limit, *usage;
};

// What is left in one cgroup folder.
std::optional<uint64_t> groupAvailable(const std::string &folder, const CgroupFiles &files) {
  std::optional<uint64_t> limit = readNumber(folder + "/" + files.limit);
  std::optional<uint64_t> usage = readNumber(folder + "/" + files.usage);
  if (!limit || !usage) {
    return std::nullopt;
  }
  uint64_t cache = readFields(folder + "/memory.stat", {"inactive_file", "active_file"});
  uint64_t used = *usage - std::min(cache, *usage);
  return *limit - std::min(used, *limit);
}

} // namespace

uint64_t availableMemory() {
  uint64_t least = readKilobytes("/proc/meminfo", "MemAvailable:").value_or(UINT64_MAX);
  visitCgroups("memory", [&](const std::string &folder, int version) {
    CgroupFiles files = version == 2 ? CgroupFiles{"memory.max", "memory.current"}
                                     : CgroupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes"};
    least = std::min(least, groupAvailable(folder, files).value_or(UINT64_MAX));
  });
  return least;
}

uint64_t peakResidentMemory() { return readKilobytes("/proc/self/status", "VmHWM:").value_or(0); }

uint64_t hugePageBytes(const void *address, uint64_t bytes) {
  std::ifstream in("/proc/self/smaps");
  auto first = reinterpret_cast<uintptr_t>(address);
  uint64_t sum = 0;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    unsigned long long begin, end, kilobytes;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      inside = begin < first + bytes && first < end;
    } else if (inside && (std::sscanf(line.c_str(), "AnonHugePages: %llu kB", &kilobytes) == 1 ||
                          std::sscanf(line.c_str(), "FilePmdMapped: %llu kB", &kilobytes) == 1)) {
      sum += kilobytes * 1024;
    }
  }
  return std::min<uint64_t>(sum, bytes);
}

Result<Memory> Memory::allocate(uint64_t bytes, const char *what) {
  Memory memory;
  if (bytes == 0) {
    return memory;
  }
  void *base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return fail(SMELT_memory,
                fmt::format("{} for {} cannot be allocated: {}", formatBytes(bytes), what, errnoText(errno)));
  }
  madvise(base, bytes, MADV_HUGEPAGE); // fewer TLB misses; harmless where the kernel has no huge pages
  memory.base = static_cast<std::byte *>(base);
  memory.length = bytes;
  return memory;
}

Memory::~Memory() {
  if (base) {
    munmap(base, length);
  }
}

} // namespace smelt::runtime
