// Memory of this machine and anonymous mappings.
#pragma once

#include "runtime/src/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace smelt::runtime {

// Bytes this process may still allocate: MemAvailable, lowered to what is left in each memory cgroup (v1 or
// v2) around the process, whose reclaimable page cache counts as free. UINT64_MAX when nothing is known.
uint64_t availableMemory();

// The files of a memory cgroup: its limit and what it uses, the page cache included.
struct MemoryGroupFiles {
  const char *limit, *usage;
};
// The least of `least` and what is left in the cgroup of a folder, on a machine with so many bytes.
uint64_t leastAvailable(uint64_t least, uint64_t machine, const std::string &folder,
                        const MemoryGroupFiles &files);

// The most memory this process has held at once, VmHWM: its own, and what it has touched of mapped files. 0
// when the system does not say.
uint64_t peakResidentMemory();

// Bytes of the mapping at `address`, of `bytes` bytes, that the system has put in large pages; 0 when it does
// not say.
uint64_t hugePageBytes(const void *address, uint64_t bytes);

// Zeroed anonymous memory, page-aligned, freed on destruction.
class Memory {
public:
  // `what` appears in the message of SMELT_memory.
  static Result<Memory> allocate(uint64_t bytes, const char *what);

  Memory() = default;
  Memory(Memory &&other) noexcept { swap(other); }
  Memory &operator=(Memory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory();

  std::byte *data() const { return base; }
  uint64_t size() const { return length; }

private:
  void swap(Memory &other) noexcept {
    std::swap(base, other.base);
    std::swap(length, other.length);
  }

  std::byte *base = nullptr;
  uint64_t length = 0;
};

} // namespace smelt::runtime
