#include "tests/support/cuda/sim/DeviceMemory.h"

#include "tests/support/cuda/sim/Fault.h"

#include <cstring>
#include <new>
#include <sys/mman.h>

namespace smelt::emu {
namespace {

/// Allocations are filled with NaN patterns up to this size; beyond, touching every page would cost too much.
constexpr uint64_t kPoisonLimit = uint64_t(64) << 20;
constexpr uint64_t kPage = 4096, kDeviceAlign = 256;

void *mapPages(uint64_t bytes) {
  void *pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

} // namespace

void *mapZeroed(size_t bytes) {
  void *pages = mapPages(bytes);
  if (!pages) {
    throw std::bad_alloc();
  }
  return pages;
}

void unmapZeroed(void *pages, size_t bytes) {
  if (pages) {
    munmap(pages, bytes);
  }
}

void AccessCounts::add(uint64_t offset, uint64_t size, bool write) {
  std::vector<uint8_t> &counts = write ? writes : reads;
  for (uint64_t i = offset; i < offset + size; ++i) {
    counts[i] = static_cast<uint8_t>(counts[i] + (counts[i] < 255));
  }
}

void Allocation::markWritten(uint64_t offset, uint64_t size) {
  for (uint64_t i = offset; i < offset + size && !written.empty();) {
    if (i % 64 == 0 && offset + size - i >= 64) {
      written[i / 64] = ~uint64_t(0);
      i += 64;
    } else {
      written[i / 64] |= uint64_t(1) << (i % 64);
      ++i;
    }
  }
}

bool Allocation::allWritten(uint64_t offset, uint64_t size) const {
  for (uint64_t i = offset; i < offset + size; ++i) {
    if (!(written[i / 64] >> (i % 64) & 1)) {
      return false;
    }
  }
  return true;
}

void DeviceMemory::configure(uint64_t limit, bool track) {
  byte_limit = limit;
  track_writes = track;
}

Allocation *DeviceMemory::add(uint64_t bytes, bool pinned) {
  auto allocation = std::make_unique<Allocation>();
  // One page more than asked for: the addresses of two allocations never touch.
  allocation->mapped = (bytes + kPage - 1) / kPage * kPage + kPage;
  auto *pages = static_cast<uint8_t *>(mapPages(allocation->mapped));
  if (!pages) {
    return nullptr;
  }
  // Device memory starts on an odd multiple of the alignment that the driver promises, and not on a better
  // one.
  allocation->host = pinned ? pages : pages + kDeviceAlign;
  allocation->bytes = bytes;
  allocation->pinned = pinned;
  allocation->begin =
      reinterpret_cast<uint64_t>(allocation->host) | (pinned ? 0 : kDeviceWindow << kWindowShift);
  if (!pinned && bytes <= kPoisonLimit) {
    std::memset(allocation->host, 0xff, bytes);
  }
  if (track_writes && !pinned) {
    allocation->written.assign((bytes + 63) / 64, 0);
  }
  return (allocations[allocation->begin] = std::move(allocation)).get();
}

Allocation *DeviceMemory::allocate(uint64_t bytes, const std::string &name) {
  if (bytes > byte_limit || byte_count > byte_limit - bytes) {
    return nullptr;
  }
  Allocation *result = add(bytes, false);
  if (result) {
    result->name = name;
    byte_count += bytes;
  }
  return result;
}

Allocation *DeviceMemory::allocateHost(uint64_t bytes) { return add(bytes, true); }

bool DeviceMemory::release(uint64_t address, bool pinned) {
  const auto found = allocations.find(address);
  if (found == allocations.end() || found->second->pinned != pinned) {
    return false;
  }
  Allocation &old = *found->second;
  byte_count -= pinned ? 0 : old.bytes;
  munmap(pinned ? old.host : old.host - kDeviceAlign, old.mapped);
  allocations.erase(found);
  return true;
}

Allocation *DeviceMemory::find(uint64_t address, uint64_t size) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) {
    return nullptr;
  }
  Allocation *candidate = std::prev(next)->second.get();
  return candidate->contains(address, size) ? candidate : nullptr;
}

std::string DeviceMemory::describe(uint64_t address) const {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) {
    return "no allocation lies before it";
  }
  const Allocation &near = *std::prev(next)->second;
  const uint64_t offset = address - near.begin;
  const std::string what =
      near.name.empty() ? format("the allocation at 0x%llx", (unsigned long long)near.begin) : near.name;
  return offset < near.bytes
             ? format("it begins at byte %llu of %s, which has %llu", (unsigned long long)offset,
                      what.c_str(), (unsigned long long)near.bytes)
             : format("%llu bytes past the end of %s (%llu bytes)", (unsigned long long)(offset - near.bytes),
                      what.c_str(), (unsigned long long)near.bytes);
}

std::vector<const Allocation *> DeviceMemory::leaks() const {
  std::vector<const Allocation *> result;
  for (const auto &[begin, allocation] : allocations) {
    result.push_back(allocation.get());
  }
  return result;
}

DeviceMemory &deviceMemory() {
  static DeviceMemory memory;
  return memory;
}

} // namespace smelt::emu
