// mbarrier: phases, arrivals, transaction counts, waits.
#include "tests/support/cuda/sim/Access.h"
#include "tests/support/cuda/sim/Async.h"
#include "tests/support/cuda/sim/Handlers.h"

#include <cstring>

namespace smelt::emu {

uint64_t sharedOffset(uint64_t address) {
  return address >> kWindowShift == kSharedWindow ? address & 0xffffffffu : address;
}

namespace {

/// Checks the mbarrier's own 8 bytes like memory: a use that is not ordered after its init is a race.
void touch(Warp &warp, const Instr &in, uint32_t lane, uint64_t address, uint32_t flags) {
  resolveRange(warp, in, lane, Space::Shared, sharedOffset(address), 8, 8, flags);
}

/// Lets everything land that this mbarrier's phase waits for.
void settle(Cta &cta, Mbarrier &barrier, uint64_t offset) {
  const auto loads = std::move(barrier.loads);
  barrier.loads.clear();
  for (const BulkLoad &load : loads) {
    Warp &warp = *load.warp;
    const uint8_t *from = resolveRange(warp, *load.copy.in, load.copy.lane, Space::Global, load.copy.from,
                                       load.copy.bytes, 16, kNoRecord);
    uint8_t *to = resolveRange(warp, *load.copy.in, load.copy.lane, Space::Shared, load.copy.to,
                               load.copy.bytes, 16, kWrite | kLanding | kAsyncProxy);
    std::memcpy(to, from, load.copy.bytes);
    joinClocks(barrier.clocks, warp.clocks);
    ++warp.clocks[warp.index];
    barrier.transactions -= load.copy.bytes;
    completePhase(cta, barrier, offset);
  }
  const auto arrives = std::move(barrier.arrives);
  barrier.arrives.clear();
  for (const DeferredArrive &deferred : arrives) {
    landCopies(*deferred.warp, deferred.lane, ~0u);
    arrive(*deferred.warp, barrier, offset, 1);
  }
}

Step init(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t addresses[kWarpSize];
  laneAddresses(warp, in, addresses);
  eachLane(lanes, [&](uint32_t lane) {
    const uint32_t count = warp.src<uint32_t>(in.b)[lane];
    touch(warp, in, lane, addresses[lane], kWrite);
    if (count == 0 || count > (1u << 20) - 1) {
      fail(warp, in, lane, FaultCode::LaunchFailed, format("mbarrier count %u: from 1 to 1048575", count));
    }
    Mbarrier barrier;
    barrier.count = barrier.pending = count;
    warp.cta->mbarriers[sharedOffset(addresses[lane])] = std::move(barrier);
  });
  ++warp.cta->progress;
  return Step::Next;
}

Step invalidate(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t addresses[kWarpSize];
  laneAddresses(warp, in, addresses);
  eachLane(lanes, [&](uint32_t lane) {
    mbarrierAt(warp, in, lane, addresses[lane]);
    touch(warp, in, lane, addresses[lane], kWrite | kAtomic);
    warp.cta->mbarriers.erase(sharedOffset(addresses[lane]));
  });
  return Step::Next;
}

/// x: arrive as well. y: expect bytes of operand b. z: complete bytes of operand b. Otherwise b is the count.
Step signal(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t addresses[kWarpSize];
  laneAddresses(warp, in, addresses);
  const uint32_t *operand = in.b == kNoRef ? nullptr : warp.src<uint32_t>(in.b);
  eachLane(lanes, [&](uint32_t lane) {
    Mbarrier &barrier = mbarrierAt(warp, in, lane, addresses[lane]);
    const uint64_t offset = sharedOffset(addresses[lane]);
    touch(warp, in, lane, addresses[lane], kWrite | kAtomic);
    if (in.d != kNoRef) {
      warp.dst<uint64_t>(in.d)[lane] = barrier.phase;
    }
    if (in.y) {
      barrier.transactions += operand[lane];
    } else if (in.z) {
      barrier.transactions -= operand[lane];
    }
    const int64_t count = !in.x ? 0 : in.y || !operand ? 1 : operand[lane];
    if (count > barrier.pending) {
      fail(warp, in, lane, FaultCode::LaunchFailed,
           format("arrival of %lld at an mbarrier that expects %lld more of %lld",
                  static_cast<long long>(count), static_cast<long long>(barrier.pending),
                  static_cast<long long>(barrier.count)));
    }
    arrive(warp, barrier, offset, count);
  });
  return Step::Next;
}

/// x: by parity. y: may suspend (try_wait). b: parity or phase token.
Step wait(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t addresses[kWarpSize];
  laneAddresses(warp, in, addresses);
  uint32_t complete = 0;
  uint64_t missing = 0;
  const auto passed = [&](const Mbarrier &barrier, uint32_t lane) {
    return in.x ? (barrier.phase & 1) != (warp.src<uint32_t>(in.b)[lane] & 1)
                : barrier.phase != static_cast<uint32_t>(warp.src<uint64_t>(in.b)[lane]);
  };
  eachLane(lanes, [&](uint32_t lane) {
    Mbarrier &barrier = mbarrierAt(warp, in, lane, addresses[lane]);
    const uint64_t offset = sharedOffset(addresses[lane]);
    touch(warp, in, lane, addresses[lane], kWrite | kAtomic);
    if (!passed(barrier, lane)) {
      settle(*warp.cta, barrier, offset);
    }
    if (passed(barrier, lane)) {
      complete |= 1u << lane;
      if (warp.cta->checker) {
        joinClocks(warp.clocks, barrier.completed);
        ++warp.sync;
      }
    } else {
      missing = offset;
    }
  });
  if (complete != lanes && in.y) {
    warp.waitAt(SplitState::AtMbarrier, missing, lanes);
    return Step::Wait;
  }
  warp.setPredicate(in.d, complete, lanes);
  return complete == lanes ? Step::Next : Step::Yield;
}

void space(Decoding &d, Instr &in) {
  d.ignore({"release", "acquire", "relaxed", "cta", "cluster"});
  in.space = d.oneOf({"shared", "shared::cta", "shared::cluster"}) >= 0 ? Space::Shared : Space::Generic;
  if (d.takeType() != Type::B64) {
    d.fail("an mbarrier is .b64");
  }
  d.done();
}

void decodeSignal(Decoding &d, Instr &in, bool arrives) {
  in.run = signal;
  in.x = arrives;
  if (arrives) {
    in.y = d.take("expect_tx");
    d.take("noComplete");
  }
  space(d, in);
  // Arrivals have a state result unless they are written without one.
  const size_t address = d.operand(0).kind == OperandKind::Address ? 0 : 1;
  if (address == 1 && d.operand(0).kind != OperandKind::Discard) {
    in.d = d.dest(0, 8);
  }
  d.address(in, address);
  if (d.count() > address + 1) {
    in.b = d.source(address + 1, 4);
  } else if (in.y || !arrives) {
    d.fail("the transaction count is missing");
  }
}

void decodeMbarrier(Decoding &d, Instr &in) {
  switch (d.oneOf({"init", "inval", "arrive", "expect_tx", "complete_tx", "test_wait", "try_wait"})) {
  case 0:
    space(d, in);
    in.run = init;
    d.address(in, 0);
    in.b = d.source(1, 4);
    return;
  case 1:
    space(d, in);
    in.run = invalidate;
    return d.address(in, 0);
  case 2:
    return decodeSignal(d, in, true);
  case 3:
    in.y = 1;
    return decodeSignal(d, in, false);
  case 4:
    in.z = 1;
    return decodeSignal(d, in, false);
  case 5:
    break;
  case 6:
    in.y = 1;
    break;
  default:
    d.fail("this mbarrier operation is not emulated");
  }
  in.x = d.take("parity");
  space(d, in);
  in.run = wait;
  in.d = d.predicateDest(d.operand(0));
  d.address(in, 1);
  in.b = d.source(2, in.x ? 4 : 8);
}

} // namespace

Mbarrier &mbarrierAt(Warp &warp, const Instr &in, uint32_t lane, uint64_t address) {
  const uint64_t offset = sharedOffset(address);
  const auto found = warp.cta->mbarriers.find(offset);
  if (found == warp.cta->mbarriers.end()) {
    resolveRange(warp, in, lane, Space::Shared, offset, 8, 8, kNoRecord); // bounds and alignment first
    fail(
        warp, in, lane, FaultCode::LaunchFailed,
        format("no mbarrier was initialised at shared offset %llu", static_cast<unsigned long long>(offset)));
  }
  return found->second;
}

void arrive(Warp &warp, Mbarrier &barrier, uint64_t offset, int64_t count) {
  joinClocks(barrier.clocks, warp.clocks);
  ++warp.clocks[warp.index];
  barrier.pending -= count;
  ++warp.cta->progress;
  completePhase(*warp.cta, barrier, offset);
}

void completePhase(Cta &cta, Mbarrier &barrier, uint64_t offset) {
  if (barrier.pending != 0 || barrier.transactions != 0) {
    return;
  }
  ++barrier.phase;
  barrier.pending = barrier.count;
  joinClocks(barrier.completed, barrier.clocks);
  barrier.clocks.clear();
  ++cta.progress;
  wakeWaiters(cta, offset);
}

void wakeWaiters(Cta &cta, uint64_t offset) {
  for (Warp &warp : cta.warps) {
    for (Split &split : warp.splits) {
      if (split.state == SplitState::AtMbarrier && split.wait_on == offset) {
        warp.release(split, false);
      }
    }
  }
}

void addMbarriers(DecodeTable &table) { table["mbarrier"] = decodeMbarrier; }

} // namespace smelt::emu
