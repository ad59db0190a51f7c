// One CTA and the launch it belongs to.
#pragma once

#include "tests/support/cuda/sim/Checker.h"
#include "tests/support/cuda/sim/DeviceMemory.h"
#include "tests/support/cuda/sim/Warp.h"

#include <random>
#include <unordered_map>

namespace smelt::emu {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// What the environment asks for.
struct SimOptions {
  bool check = true;
  uint64_t seed = 0; ///< 0: warps in order
  bool track_writes = false;
};

struct Launch {
  const Program *program = nullptr;
  Dim3 grid, block;
  uint32_t dynamic_shared = 0;
  std::vector<uint8_t> params;
  SimOptions options;
  uint32_t first_cta = 0; ///< Stamp::cta of CTA 0
  uint64_t grid_id = 0;
  GlobalOrder order; ///< what CTAs know of each other through atomics
};

struct NamedBarrier {
  uint32_t arrived = 0, expected = 0;
  WarpClocks clocks;
  std::shared_ptr<const ForeignClocks> foreign, fenced, acquired;
};

/// An arrive that happens once a thread's copies have landed.
struct DeferredArrive {
  Warp *warp;
  const Instr *in;
  uint32_t lane;
};

/// A bulk copy that completes at an mbarrier.
struct BulkLoad {
  Warp *warp;
  PendingCopy copy;
};

struct Mbarrier {
  int64_t count = 0, pending = 0, transactions = 0;
  uint32_t phase = 0;
  WarpClocks clocks;    ///< released by the arrivals of the running phase
  WarpClocks completed; ///< of all completed phases
  std::vector<BulkLoad> loads;
  std::vector<DeferredArrive> arrives;
};

enum class CtaState : uint8_t { Done, Spinning };

class Cta {
public:
  Cta(Launch &launch, uint32_t linear);
  /// Runs until all threads have exited, or nothing but polling happens. Throws Fault.
  CtaState run();

  Launch &launch;
  uint32_t linear, id; ///< id: Stamp::cta
  Dim3 index;
  uint32_t threads, exited = 0;
  std::vector<uint8_t> shared_storage;
  uint8_t *shared = nullptr; ///< 1024-byte aligned
  uint32_t shared_bytes = 0;
  std::vector<Warp> warps;
  NamedBarrier barriers[17];                        ///< the last is the cluster's
  std::unordered_map<uint64_t, Mbarrier> mbarriers; ///< by shared offset
  std::unique_ptr<SharedChecker> checker;           ///< null if checks are off
  uint64_t progress = 0; ///< counts what other warps may wait for: stores, arrivals, exits
  uint64_t executed = 0; ///< warp instructions

  /// Thread number of a lane, and its indices.
  uint32_t thread(const Warp &warp, uint32_t lane) const { return warp.index * kWarpSize + lane; }
  Dim3 threadIndex(uint32_t thread) const;

private:
  void fillSpecials(Warp &warp);
  [[noreturn]] void deadlock();
  std::vector<uint32_t> order;
  std::mt19937_64 random;
};

/// Runs a whole launch. Throws Fault.
void runLaunch(Launch &launch);

} // namespace smelt::emu
