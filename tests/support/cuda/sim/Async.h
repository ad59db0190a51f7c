// Asynchronous copies and mbarriers. Copies are as late as they may be: data lands when somebody waits for
// it.
#pragma once

#include "tests/support/cuda/sim/Cta.h"

namespace smelt::emu {

/// Lands the cp.async copies of `lane` in groups up to `group`.
void landCopies(Warp &warp, uint32_t lane, uint32_t group);

/// The mbarrier at a shared address; fails if none was initialised there.
Mbarrier &mbarrierAt(Warp &warp, const Instr &in, uint32_t lane, uint64_t address);

/// Offset in shared memory of a shared or generic address.
uint64_t sharedOffset(uint64_t address);

/// Counts an arrival of `count` by `warp`, and completes the phase if it was the last thing missing.
void arrive(Warp &warp, Mbarrier &barrier, uint64_t offset, int64_t count);
void completePhase(Cta &cta, Mbarrier &barrier, uint64_t offset);

/// Lets those that wait at an mbarrier look again: its phase is complete, or something can land that was not
/// there.
void wakeWaiters(Cta &cta, uint64_t offset);

} // namespace smelt::emu
