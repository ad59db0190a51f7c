// One warp: registers of 32 lanes side by side, and the lane groups that divergent branches make.
#pragma once

#include "tests/support/cuda/sim/Fault.h"

#include <deque>
#include <map>

namespace smelt::emu {

class Cta;
struct Allocation;

enum class SplitState : uint8_t { Ready, AtBarrier, AtCollective, AtMbarrier };

/// Lanes that execute together. Divergence makes several; they meet again where the branch's paths do.
struct Split {
  uint32_t pc = 0, lanes = 0;
  int32_t join = -1;
  SplitState state = SplitState::Ready;
  uint32_t wait_lanes = 0; ///< those of `lanes` that execute the instruction they wait at
  uint64_t wait_on = 0;    ///< barrier id or mbarrier address
  uint32_t wait_value = 0; ///< predicate lanes of a reducing barrier
};

/// A meeting point: lanes wait here until none is pending.
struct Join {
  uint32_t pc = kNoPc, pending = 0, arrived = 0;
  int32_t parent = -1;
  bool used = false;
};

/// Clocks of other CTAs' warps that this one has synchronised with through global memory.
using WarpClocks = std::vector<uint32_t>;
using ForeignClocks = std::map<uint32_t, WarpClocks>; ///< by Stamp::cta

/// A copy whose data has not landed yet.
struct PendingCopy {
  uint32_t lane, group;
  uint64_t to, from; ///< shared offset, device address (the other way for bulk stores)
  uint32_t bytes, source_bytes;
  const Instr *in;
};

/// A wgmma whose result nobody may look at yet.
struct PendingWgmma {
  const Instr *in;
  uint32_t group;
  uint64_t descriptor_a, descriptor_b;
  bool accumulate;
};

struct Warp {
  uint8_t *base[2]; ///< registers, constants
  const Instr *code;
  Cta *cta;
  const Program *program;
  uint32_t index = 0; ///< in the CTA
  uint32_t exist = 0; ///< lanes that the launch has
  uint32_t live = 0;  ///< of those, not exited

  // The running split, kept out of `splits` for speed.
  uint32_t pc = 0, lanes = 0;
  int32_t join = -1;
  uint32_t current = 0; ///< index in splits

  std::vector<Split> splits;
  std::vector<Join> joins;
  std::vector<uint8_t> registers, local;
  Allocation *recent = nullptr; ///< the allocation accessed last

  // Order, for the race checker.
  std::vector<uint32_t> clocks; ///< a warp of the CTA
  uint32_t sync = 1;
  std::shared_ptr<const ForeignClocks> foreign, fenced_release, relaxed_acquire;

  // Asynchronous work.
  std::vector<PendingCopy> copies; ///< cp.async
  uint32_t copy_groups[kWarpSize] = {};
  std::vector<PendingCopy> bulk_stores;
  uint32_t bulk_groups[kWarpSize] = {};
  std::deque<PendingWgmma> wgmmas;
  uint32_t wgmma_groups = 0;
  bool wgmma_fenced = false;
  std::vector<uint64_t>
      unfenced; ///< shared words written through the generic proxy since the last proxy fence

  template <class T> const T *src(Ref ref) const {
    return reinterpret_cast<const T *>(base[ref & kConstantBit] + (ref & ~Ref(3)));
  }
  template <class T> T *dst(Ref ref) { return reinterpret_cast<T *>(base[0] + ref); }
  uint32_t predicate(Ref ref) const {
    const uint32_t bits = *src<uint32_t>(ref);
    return ref & kNegateBit ? ~bits : bits;
  }
  /// Sets the bits of `mask` in a predicate.
  void setPredicate(Ref ref, uint32_t bits, uint32_t mask) {
    if (ref != kNoRef) {
      uint32_t &p = *dst<uint32_t>(ref);
      p = (p & ~mask) | (bits & mask);
    }
  }

  void reset(uint32_t lanes_existing);
  /// Runs until no split is ready, the budget is used up, or a Yield.
  Step run(uint64_t budget);
  bool done() const { return live == 0; }
  bool anyReady() const;
  void jump(const Instr &in, uint32_t taken);
  void exitLanes(uint32_t gone);
  /// Marks the running split as waiting; the handler then returns Step::Wait.
  void waitAt(SplitState state, uint64_t on, uint32_t executing, uint32_t value = 0);
  void release(Split &split, bool advance);

private:
  void save();
  bool pick(bool others_first);
  void meet();
  void closeJoin(int32_t at);
  int32_t newJoin(uint32_t at, uint32_t pending);
};

inline uint32_t firstLane(uint32_t lanes) { return static_cast<uint32_t>(__builtin_ctz(lanes)); }

} // namespace smelt::emu
