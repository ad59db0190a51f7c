// Races and uninitialised reads, found by happens-before: one vector clock a warp, advanced by barriers,
// mbarriers and ordered atomics. Lanes of a warp are ordered by CTA barriers and bar.warp.sync only.
#pragma once

#include "tests/support/cuda/sim/Shadow.h"
#include "tests/support/cuda/sim/Warp.h"

#include <unordered_map>

namespace smelt::emu {

enum AccessFlags : uint32_t {
  kWrite = 1,
  kAtomic = 2,
  kInFlight = 4,    ///< an asynchronous copy issued, not yet landed
  kLanding = 8,     ///< the same copy landing
  kAsyncProxy = 16, ///< by wgmma or a bulk copy
  kReadOnly = 32,   ///< ld.global.nc: nobody may write there during the launch
};

/// Shadow of a CTA's shared memory.
class SharedChecker {
public:
  explicit SharedChecker(uint32_t bytes);
  ~SharedChecker();
  /// Checks and records an access of `lane`. `data` is what a write will store, to let equal writes pass.
  void access(Warp &warp, const Instr &in, uint32_t lane, uint32_t offset, uint32_t size, uint32_t flags,
              const uint8_t *now, const uint8_t *data);
  void markInitialised(uint32_t offset, uint32_t size);
  /// fence.proxy.async by `warp`: its generic writes, and those it is ordered after, become visible.
  void proxyFence(Warp &warp);

private:
  std::unique_ptr<ShadowMap<Cell>> shadow; ///< passed on from CTA to CTA: stamps of others count as none
  std::vector<uint8_t> initialised;
};

/// What CTAs know of each other: clocks left at global addresses by ordered atomics.
struct GlobalOrder {
  std::unordered_map<uint64_t, std::shared_ptr<const ForeignClocks>> released;
};

/// Checks and records an access to a device allocation.
void checkGlobal(Warp &warp, const Instr &in, uint32_t lane, Allocation &allocation, uint64_t offset,
                 uint32_t size, uint32_t flags, const uint8_t *now, const uint8_t *data);

/// Orders the warp at a CTA barrier or warp barrier; at release and acquire through global memory.
void advanceWarp(Warp &warp);
void joinClocks(WarpClocks &into, const WarpClocks &from);
void fenceGlobal(Warp &warp);
void atomicGlobal(Warp &warp, uint64_t address, bool release, bool acquire, bool writes);
void joinForeign(std::shared_ptr<const ForeignClocks> &into,
                 const std::shared_ptr<const ForeignClocks> &from);

} // namespace smelt::emu
