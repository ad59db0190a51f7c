// bar, barrier: CTA-wide barriers by id, with counts and reductions.
#include "tests/support/cuda/sim/Cta.h"
#include "tests/support/cuda/sim/Handlers.h"

namespace smelt::emu {
namespace {

enum class Mode : uint32_t { Sync, Arrive, Popc, And, Or };

/// A register operand must be the same in all lanes.
uint32_t uniform(const Warp &warp, const Instr &in, Ref ref, uint32_t lanes, const char *what) {
  const uint32_t *values = warp.src<uint32_t>(ref);
  const uint32_t first = values[firstLane(lanes)];
  eachLane(lanes, [&](uint32_t lane) {
    if (values[lane] != first) {
      fail(warp, in, lane, FaultCode::LaunchFailed, format("%s differs between the lanes of a warp", what));
    }
  });
  return first;
}

uint32_t reduce(Mode mode, uint32_t votes, uint32_t threads) {
  return mode == Mode::Popc ? votes : mode == Mode::And ? votes == threads : votes != 0;
}

/// Gives a reducing barrier's result to the lanes that wait there.
void deliver(Warp &warp, const Instr &in, uint32_t lanes, uint32_t result) {
  if (static_cast<Mode>(in.x) == Mode::Popc) {
    storeLanes(warp.dst<uint32_t>(in.d), lanes, [&](uint32_t) { return result; });
  } else {
    warp.setPredicate(in.d, result ? ~0u : 0u, lanes);
  }
}

void complete(Cta &cta, uint32_t id) {
  NamedBarrier &barrier = cta.barriers[id];
  uint32_t votes = 0, threads = 0;
  for (Warp &warp : cta.warps) {
    for (const Split &split : warp.splits) {
      if (split.state == SplitState::AtBarrier && split.wait_on == id) {
        votes += static_cast<uint32_t>(__builtin_popcount(split.wait_value));
        threads += static_cast<uint32_t>(__builtin_popcount(split.wait_lanes));
      }
    }
  }
  for (Warp &warp : cta.warps) {
    bool joined = false;
    for (Split &split : warp.splits) {
      if (split.state != SplitState::AtBarrier || split.wait_on != id) {
        continue;
      }
      const Instr &in = warp.code[split.pc];
      if (static_cast<Mode>(in.x) > Mode::Arrive) {
        deliver(warp, in, split.wait_lanes, reduce(static_cast<Mode>(in.x), votes, threads));
      }
      if (!joined && cta.checker) {
        joinClocks(warp.clocks, barrier.clocks);
        joinForeign(warp.foreign, barrier.foreign);
        // A fence, a barrier, then one thread's atomic; or its atomic, a barrier, then a fence.
        joinForeign(warp.fenced_release, barrier.fenced);
        joinForeign(warp.relaxed_acquire, barrier.acquired);
        advanceWarp(warp);
      }
      joined = true;
      warp.release(split, true);
    }
  }
  barrier = NamedBarrier();
  ++cta.progress;
}

/// a: id, b: thread count (kNoRef: all), c: predicate, x: Mode, y: the cluster's barrier.
Step barrier(Warp &warp, const Instr &in, uint32_t lanes) {
  Cta &cta = *warp.cta;
  const uint32_t lane = firstLane(lanes);
  const uint32_t id = uniform(warp, in, in.a, lanes, "the barrier's id");
  if (id > 15 && !in.y) {
    fail(warp, in, lane, FaultCode::LaunchFailed, format("barrier id %u: there are 16", id));
  }
  uint32_t expected = cta.threads;
  if (in.b != kNoRef) {
    expected = uniform(warp, in, in.b, lanes, "the barrier's thread count");
    if (expected == 0 || expected % kWarpSize) {
      fail(warp, in, lane, FaultCode::LaunchFailed,
           format("barrier of %u threads: needs a multiple of 32", expected));
    }
  } else if (cta.exited) {
    fail(warp, in, lane, FaultCode::LaunchFailed,
         format("barrier of all threads after %u of %u have exited", cta.exited, cta.threads));
  }
  NamedBarrier &named = cta.barriers[id];
  if (named.arrived && named.expected != expected) {
    fail(warp, in, lane, FaultCode::LaunchFailed,
         format("barrier %u is waited at for %u threads and for %u", id, named.expected, expected));
  }
  named.expected = expected;
  // A counted barrier counts whole warps, as the hardware does.
  named.arrived +=
      in.b != kNoRef && (in.flags & kAligned) ? kWarpSize : static_cast<uint32_t>(__builtin_popcount(lanes));
  if (cta.checker) {
    joinClocks(named.clocks, warp.clocks);
    joinForeign(named.foreign, warp.foreign);
    joinForeign(named.fenced, warp.fenced_release);
    joinForeign(named.acquired, warp.relaxed_acquire);
  }
  ++cta.progress;
  const bool full = named.arrived >= expected;
  if (static_cast<Mode>(in.x) == Mode::Arrive) {
    if (cta.checker) {
      ++warp.clocks[warp.index];
    }
    if (full) {
      complete(cta, id);
    }
    return Step::Next;
  }
  warp.waitAt(SplitState::AtBarrier, id, lanes, in.c == kNoRef ? 0 : warp.predicate(in.c) & lanes);
  if (full) {
    complete(cta, id);
  }
  return Step::Wait;
}

void decodeBarrier(Decoding &d, Instr &in, bool aligned) {
  d.take("cta");
  const int mode = d.oneOf({"sync", "arrive", "red"});
  if (mode < 0) {
    if (d.peek() == "warp") {
      d.fail("malformed bar.warp");
    }
    d.fail("malformed barrier");
  }
  in.run = barrier;
  in.x = static_cast<uint32_t>(mode);
  size_t at = 0;
  if (mode == 2) {
    const int reduction = d.oneOf({"popc", "and", "or"});
    in.x = static_cast<uint32_t>(Mode::Popc) + static_cast<uint32_t>(reduction);
    aligned |= d.take("aligned");
    const Type type = d.takeType();
    in.d = type == Type::Pred ? d.predicateDest(d.operand(at)) : d.dest(at, 4);
    ++at;
  }
  aligned |= d.take("aligned");
  d.done();
  in.flags |= aligned ? kAligned : 0;
  in.a = d.source(at++, 4);
  const size_t left = d.count() - at - (mode == 2 ? 1 : 0);
  if (left == 1) {
    in.b = d.source(at++, 4);
  }
  if (mode == 1 && in.b == kNoRef) {
    d.fail("arriving at a barrier needs a thread count");
  }
  if (mode == 2) {
    in.c = d.predicateSource(at);
  }
}

/// barrier.cluster of a cluster that is one CTA: arrive does nothing, wait is a barrier of the CTA.
Step clusterArrive(Warp &, const Instr &, uint32_t) { return Step::Next; }

void decodeClusterBarrier(Decoding &d, Instr &in) {
  const int mode = d.oneOf({"arrive", "wait"});
  d.ignore({"release", "relaxed", "acquire"});
  const bool aligned = d.take("aligned");
  d.done();
  in.flags |= aligned ? kAligned : 0;
  in.run = mode == 0 ? clusterArrive : barrier;
  in.x = static_cast<uint32_t>(Mode::Sync);
  in.a = d.layout.constant(16, 4);
  in.y = 1;
}

} // namespace

void decodeWarpBarrier(Decoding &d, Instr &in);

void addBarriers(DecodeTable &table) {
  table["bar"] = [](Decoding &d, Instr &in) {
    if (d.take("warp")) {
      decodeWarpBarrier(d, in);
    } else {
      decodeBarrier(d, in, true);
    }
  };
  table["barrier"] = [](Decoding &d, Instr &in) {
    d.take("cluster") ? decodeClusterBarrier(d, in) : decodeBarrier(d, in, false);
  };
}

} // namespace smelt::emu
