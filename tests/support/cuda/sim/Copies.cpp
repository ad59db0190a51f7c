// cp.async and cp.async.bulk.
#include "tests/support/cuda/sim/Access.h"
#include "tests/support/cuda/sim/Async.h"
#include "tests/support/cuda/sim/Handlers.h"

#include <cstring>

namespace smelt::emu {
namespace {

/// Moves a copy's bytes and tells the checker that they are there.
void land(Warp &warp, const PendingCopy &copy, uint32_t flags) {
  uint8_t data[16] = {};
  if (copy.source_bytes) {
    const uint8_t *from =
        resolveRange(warp, *copy.in, copy.lane, Space::Global, copy.from, copy.source_bytes, 1, kNoRecord);
    std::memcpy(data, from, copy.source_bytes);
  }
  uint8_t *to = resolveRange(warp, *copy.in, copy.lane, Space::Shared, copy.to, copy.bytes, 1,
                             flags | kWrite | kLanding);
  std::memcpy(to, data, copy.bytes);
}

/// x: bytes. b: source size (kNoRef: all). imm is the destination's offset, z the source's.
Step copyAsync(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t to[kWarpSize];
  laneAddresses(warp, in, to);
  const uint64_t *from = warp.src<uint64_t>(in.b);
  const uint32_t *sizes = in.c == kNoRef ? nullptr : warp.src<uint32_t>(in.c);
  const uint32_t skip = in.e == kNoRef ? 0 : warp.predicate(in.e);
  eachLane(lanes, [&](uint32_t lane) {
    uint32_t source_bytes = sizes ? sizes[lane] : in.x;
    if (source_bytes > in.x) {
      fail(warp, in, lane, FaultCode::LaunchFailed,
           format("source size %u of a copy of %u bytes", source_bytes, in.x));
    }
    source_bytes = skip >> lane & 1 ? 0 : source_bytes;
    const uint64_t source = from[lane] + in.y;
    if (source_bytes) {
      resolveRange(warp, in, lane, Space::Global, source, source_bytes, in.x, 0);
    } else if (source % in.x) {
      resolveRange(warp, in, lane, Space::Global, source, 0, in.x, kNoRecord); // reports the misalignment
    }
    resolveRange(warp, in, lane, Space::Shared, to[lane], in.x, in.x, kWrite | kInFlight);
    warp.copies.push_back({lane, warp.copy_groups[lane], to[lane], source, in.x, source_bytes, &in});
  });
  return Step::Next;
}

Step commitCopies(Warp &warp, const Instr &, uint32_t lanes) {
  eachLane(lanes, [&](uint32_t lane) { ++warp.copy_groups[lane]; });
  return Step::Next;
}

/// x: groups that may stay pending; kNoPc waits for everything, committed or not.
Step waitCopies(Warp &warp, const Instr &in, uint32_t lanes) {
  eachLane(lanes, [&](uint32_t lane) {
    const int64_t last =
        in.x == kNoPc ? int64_t(warp.copy_groups[lane]) : int64_t(warp.copy_groups[lane]) - in.x - 1;
    if (last >= 0) {
      landCopies(warp, lane, static_cast<uint32_t>(last));
    }
  });
  return Step::Next;
}

/// The arrival that follows a thread's copies; it happens when somebody waits at the mbarrier. x: .noinc.
Step arriveAfterCopies(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t addresses[kWarpSize];
  laneAddresses(warp, in, addresses);
  eachLane(lanes, [&](uint32_t lane) {
    Mbarrier &barrier = mbarrierAt(warp, in, lane, addresses[lane]);
    barrier.pending += in.x ? 0 : 1;
    barrier.arrives.push_back({&warp, &in, lane});
    wakeWaiters(*warp.cta, sharedOffset(addresses[lane]));
  });
  ++warp.cta->progress;
  return Step::Next;
}

uint32_t bulkBytes(Warp &warp, const Instr &in, uint32_t lane) {
  const uint32_t bytes = warp.src<uint32_t>(in.c)[lane];
  if (bytes % 16) {
    fail(warp, in, lane, FaultCode::MisalignedAddress,
         format("bulk copy of %u bytes: needs a multiple of 16", bytes));
  }
  return bytes;
}

/// a: shared destination, b: global source, c: bytes, e: mbarrier.
Step bulkLoad(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t to[kWarpSize], barriers[kWarpSize];
  laneAddresses(warp, in, to);
  Instr barrier_at = in;
  barrier_at.imm = in.x;
  barrier_at.flags = static_cast<uint8_t>(in.z);
  laneAddresses(warp, barrier_at, barriers, &Instr::e);
  const uint64_t *from = warp.src<uint64_t>(in.b);
  eachLane(lanes, [&](uint32_t lane) {
    const uint32_t bytes = bulkBytes(warp, in, lane);
    Mbarrier &barrier = mbarrierAt(warp, in, lane, barriers[lane]);
    const uint64_t source = from[lane] + in.y;
    resolveRange(warp, in, lane, Space::Global, source, bytes, 16, 0);
    const uint64_t target = sharedOffset(to[lane]);
    resolveRange(warp, in, lane, Space::Shared, target, bytes, 16, kWrite | kInFlight | kAsyncProxy);
    barrier.loads.push_back({&warp, {lane, 0, target, source, bytes, bytes, &in}});
    wakeWaiters(*warp.cta, sharedOffset(barriers[lane]));
    ++warp.clocks[warp.index];
  });
  ++warp.cta->progress;
  return Step::Next;
}

/// a: global destination, b: shared source, c: bytes.
Step bulkStore(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t to[kWarpSize];
  laneAddresses(warp, in, to);
  eachLane(lanes, [&](uint32_t lane) {
    const uint32_t bytes = bulkBytes(warp, in, lane);
    const uint64_t base = in.z ? warp.src<uint32_t>(in.b)[lane] : warp.src<uint64_t>(in.b)[lane];
    const uint64_t source = sharedOffset(base + in.y);
    resolveRange(warp, in, lane, Space::Shared, source, bytes, 16, kAsyncProxy);
    warp.bulk_stores.push_back({lane, warp.bulk_groups[lane], to[lane], source, bytes, bytes, &in});
  });
  return Step::Next;
}

Step commitBulk(Warp &warp, const Instr &, uint32_t lanes) {
  eachLane(lanes, [&](uint32_t lane) { ++warp.bulk_groups[lane]; });
  return Step::Next;
}

Step waitBulk(Warp &warp, const Instr &in, uint32_t lanes) {
  std::erase_if(warp.bulk_stores, [&](const PendingCopy &copy) {
    if (!(lanes >> copy.lane & 1) || int64_t(copy.group) > int64_t(warp.bulk_groups[copy.lane]) - in.x - 1) {
      return false;
    }
    const uint8_t *from =
        resolveRange(warp, *copy.in, copy.lane, Space::Shared, copy.from, copy.bytes, 1, kAsyncProxy);
    uint8_t *to =
        resolveRange(warp, *copy.in, copy.lane, Space::Global, copy.to, copy.bytes, 16, kWrite, from);
    std::memcpy(to, from, copy.bytes);
    return true;
  });
  ++warp.cta->progress;
  return Step::Next;
}

/// A second address operand: its register in `base`, its offset in `offset`, true if the register has 32
/// bits.
bool secondAddress(Decoding &d, Instr &in, size_t i, Ref Instr::*base, uint32_t Instr::*offset) {
  Instr scratch;
  d.address(scratch, i, base);
  in.*base = scratch.*base;
  in.*offset = static_cast<uint32_t>(scratch.imm);
  return scratch.flags & kShortAddress;
}

void decodeBulk(Decoding &d, Instr &in) {
  if (d.take("commit_group")) {
    in.run = commitBulk;
    return d.done();
  }
  if (d.take("wait_group")) {
    d.take("read");
    d.done();
    in.x = static_cast<uint32_t>(d.integer(0));
    in.run = waitBulk;
    return;
  }
  if (d.take("prefetch")) {
    in.run = [](Warp &, const Instr &, uint32_t) { return Step::Next; };
    return;
  }
  if (d.oneOf({"shared::cluster", "shared::cta"}) >= 0) {
    if (!d.take("global") || !d.take("mbarrier::complete_tx::bytes")) {
      d.fail("this form of bulk copy is not emulated");
    }
    d.ignore({"L2::cache_hint"});
    d.done();
    in.run = bulkLoad;
    d.address(in, 0);
    secondAddress(d, in, 1, &Instr::b, &Instr::y);
    in.c = d.source(2, 4);
    in.z = secondAddress(d, in, 3, &Instr::e, &Instr::x) ? kShortAddress : 0;
    return;
  }
  if (d.take("global") && d.take("shared::cta") && d.take("bulk_group")) {
    d.ignore({"L2::cache_hint"});
    d.done();
    in.run = bulkStore;
    d.address(in, 0);
    in.z = secondAddress(d, in, 1, &Instr::b, &Instr::y);
    in.c = d.source(2, 4);
    return;
  }
  d.fail("this form of bulk copy is not emulated");
}

void decodeCp(Decoding &d, Instr &in) {
  if (!d.take("async")) {
    d.fail("only cp.async is emulated");
  }
  if (d.take("bulk")) {
    return decodeBulk(d, in);
  }
  if (d.take("commit_group")) {
    in.run = commitCopies;
    return d.done();
  }
  if (d.take("wait_group") || d.take("wait_all")) {
    in.x = d.statement.op.back() == "wait_all" ? kNoPc : static_cast<uint32_t>(d.integer(0));
    in.run = waitCopies;
    return d.done();
  }
  if (d.take("mbarrier")) {
    d.take("arrive");
    in.x = d.take("noinc");
    d.ignore({"shared", "shared::cta", "b64"});
    d.done();
    in.run = arriveAfterCopies;
    return d.address(in, 0);
  }
  const int level = d.oneOf({"ca", "cg"});
  if (level < 0 || (d.oneOf({"shared", "shared::cta"}) < 0) || !d.take("global")) {
    d.fail("malformed cp.async");
  }
  d.ignore({"L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"});
  d.done();
  const int64_t bytes = d.integer(2);
  if (bytes != 16 && (level == 1 || (bytes != 4 && bytes != 8))) {
    d.fail(level == 1 ? "cp.async.cg copies 16 bytes" : "cp.async.ca copies 4, 8 or 16 bytes");
  }
  in.run = copyAsync;
  in.x = static_cast<uint32_t>(bytes);
  d.address(in, 0);
  if (secondAddress(d, in, 1, &Instr::b, &Instr::y)) {
    d.fail("a global address has 64 bits");
  }
  if (d.count() > 3) {
    const bool predicate = d.operand(3).kind == OperandKind::Register && d.registerBytes(d.operand(3)) == 0;
    (predicate ? in.e : in.c) = predicate ? d.predicateSource(3) : d.source(3, 4);
  }
}

} // namespace

void landCopies(Warp &warp, uint32_t lane, uint32_t group) {
  bool any = false;
  std::erase_if(warp.copies, [&](const PendingCopy &copy) {
    const bool now = copy.lane == lane && copy.group <= group;
    if (now) {
      land(warp, copy, 0);
      any = true;
    }
    return now;
  });
  warp.cta->progress += any;
}

void addCopies(DecodeTable &table) { table["cp"] = decodeCp; }

} // namespace smelt::emu
