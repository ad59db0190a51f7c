// Device memory: every allocation has its own range of addresses that no host pointer shares.
#pragma once

#include "tests/support/cuda/sim/Shadow.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace smelt::emu {

/// Address windows. Device addresses are tagged so that host code that dereferences one faults.
inline constexpr uint64_t kWindowShift = 56;
inline constexpr uint64_t kDeviceWindow = 1, kSharedWindow = 2, kLocalWindow = 3, kParamWindow = 4;

/// How often kernels have accessed each byte of an allocation; 255 is many. Lanes of one instruction that
/// read the same bytes count as one.
struct AccessCounts {
  std::vector<uint8_t> reads, writes;
  void add(uint64_t offset, uint64_t size, bool write);
};

struct Allocation {
  uint64_t begin = 0, bytes = 0; ///< device address, as asked for
  uint8_t *host = nullptr;
  bool pinned = false;    ///< host memory that the device may address
  bool constant = false;  ///< not writable by kernels
  uint64_t mapped = 0;    ///< bytes of the mapping behind `host`
  std::string name;       ///< of a module variable
  ShadowMap<Cell> shadow; ///< for the race checker
  ShadowMap<WordTags> tags;
  std::vector<uint64_t> written;        ///< a bit a byte, only if reads of unwritten memory are looked for
  std::unique_ptr<AccessCounts> counts; ///< only if a test counts

  bool contains(uint64_t address, uint64_t size) const {
    return address - begin <= bytes && size <= bytes - (address - begin);
  }
  void markWritten(uint64_t offset, uint64_t size);
  bool allWritten(uint64_t offset, uint64_t size) const;
};

class DeviceMemory {
public:
  /// `limit` bytes at most; `track` keeps a map of what was ever written.
  void configure(uint64_t limit, bool track);
  uint64_t limit() const { return byte_limit; }
  uint64_t used() const { return byte_count; }
  bool tracksWrites() const { return track_writes; }

  /// Device memory filled with 0xff (NaN in every float format). Null if it does not fit.
  Allocation *allocate(uint64_t bytes, const std::string &name = "");
  /// Page-locked host memory; its device address is the host address.
  Allocation *allocateHost(uint64_t bytes);
  /// False if `address` is not the beginning of an allocation of that kind.
  bool release(uint64_t address, bool pinned);

  /// The allocation that holds all `size` bytes at `address`, or null.
  Allocation *find(uint64_t address, uint64_t size = 1);
  /// Words on where `address` lies, for messages: the nearest allocation before it.
  std::string describe(uint64_t address) const;
  std::vector<const Allocation *> leaks() const;

  bool counting = false; ///< some allocation has counts

private:
  Allocation *add(uint64_t bytes, bool pinned);
  std::map<uint64_t, std::unique_ptr<Allocation>> allocations; ///< by begin
  uint64_t byte_limit = ~uint64_t(0), byte_count = 0;
  bool track_writes = false;
};

DeviceMemory &deviceMemory();

} // namespace smelt::emu
