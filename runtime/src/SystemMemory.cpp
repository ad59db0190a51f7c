#include "runtime/src/SystemMemory.h"

#include "runtime/src/Cgroups.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

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

} // namespace

// What is left is limit - usage at least, since usage counts the page cache, and a group uses no more than
// the machine has: for most groups one file need be read.
uint64_t leastAvailable(uint64_t least, uint64_t machine, const std::string &folder,
                        const MemoryGroupFiles &files) {
  std::optional<uint64_t> limit = readNumber(folder + "/" + files.limit);
  if (!limit || *limit - std::min(machine, *limit) >= least) {
    return least;
  }
  std::optional<uint64_t> usage = readNumber(folder + "/" + files.usage);
  if (!usage || *limit - std::min(*usage, *limit) >= least) {
    return least;
  }
  uint64_t cache = readFields(folder + "/memory.stat", {"inactive_file", "active_file"});
  uint64_t used = *usage - std::min(cache, *usage);
  return std::min(least, *limit - std::min(used, *limit));
}

uint64_t availableMemory() {
  uint64_t machine = readKilobytes("/proc/meminfo", "MemTotal:").value_or(UINT64_MAX);
  uint64_t least = readKilobytes("/proc/meminfo", "MemAvailable:").value_or(UINT64_MAX);
  visitCgroups("memory", [&](const std::string &folder, int version) {
    MemoryGroupFiles files = version == 2
                                 ? MemoryGroupFiles{"memory.max", "memory.current"}
                                 : MemoryGroupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes"};
    least = leastAvailable(least, machine, folder, files);
  });
  return least;
}

uint64_t peakResidentMemory() { return readKilobytes("/proc/self/status", "VmHWM:").value_or(0); }

namespace {

// The interface of PAGEMAP_SCAN, Linux 6.7, which older headers lack.
struct PageRegion {
  uint64_t start, end, categories;
};
struct PageScan {
  uint64_t size, flags, start, end, walkEnd, vec, vecLen, maxPages, inverted, mask, anyOf, returned;
};
constexpr uint64_t pageIsHuge = 1 << 6;
constexpr unsigned long pagemapScan = _IOWR('f', 16, PageScan);

// nullopt when the kernel has no such call. It looks at page tables alone, not at every page as smaps does.
std::optional<uint64_t> scanHugePages(uintptr_t begin, uintptr_t end) {
  int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return std::nullopt;
  }
  PageRegion regions[64];
  std::optional<uint64_t> sum = 0;
  for (uint64_t next = begin; sum && next < end;) {
    PageScan scan = {};
    scan.size = sizeof scan;
    scan.start = next;
    scan.end = end;
    scan.vec = reinterpret_cast<uintptr_t>(regions);
    scan.vecLen = std::size(regions);
    scan.mask = scan.returned = pageIsHuge;
    int found = ioctl(file, pagemapScan, &scan);
    if (found < 0 || scan.walkEnd <= next) {
      sum.reset();
      break;
    }
    for (int i = 0; i < found; ++i) {
      *sum += regions[i].end - regions[i].start;
    }
    next = scan.walkEnd;
  }
  close(file);
  return sum;
}

// The same from /proc/self/smaps, where whole mappings are counted.
uint64_t sumHugePages(uintptr_t first, uintptr_t last) {
  std::ifstream in("/proc/self/smaps");
  uint64_t sum = 0;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    unsigned long long begin, end, kilobytes;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      inside = begin < last && first < end;
    } else if (inside && (std::sscanf(line.c_str(), "AnonHugePages: %llu kB", &kilobytes) == 1 ||
                          std::sscanf(line.c_str(), "FilePmdMapped: %llu kB", &kilobytes) == 1)) {
      sum += kilobytes * 1024;
    }
  }
  return sum;
}

} // namespace

uint64_t hugePageBytes(const void *address, uint64_t bytes) {
  uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE)), first = reinterpret_cast<uintptr_t>(address);
  uintptr_t begin = first & ~(page - 1), end = (first + bytes + page - 1) & ~(page - 1);
  std::optional<uint64_t> scanned = scanHugePages(begin, end);
  return std::min(scanned ? *scanned : sumHugePages(begin, end), bytes);
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
