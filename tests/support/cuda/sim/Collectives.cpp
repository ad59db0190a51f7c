// Warp collectives that name their lanes by a mask: bar.warp, shfl, vote, redux, match, elect. Lane groups
// that arrive from different places wait for each other.
#include "tests/support/cuda/sim/Cta.h"
#include "tests/support/cuda/sim/Handlers.h"

#include <cmath>

namespace smelt::emu {

/// Operands of all lanes of one collective, gathered from the groups that execute it, and its results.
struct Lanes {
  Warp *warp;
  uint64_t a[kWarpSize];
  uint32_t b[kWarpSize], c[kWarpSize], mask[kWarpSize];
  uint64_t result[kWarpSize];
  uint32_t predicate = 0; ///< second result, or the first of a vote
};

namespace {

enum Forms : uint32_t { kWideValue = 1, kPredicateValue = 2, kNoResult = 4, kPredicateResult = 8 };

/// y holds Forms. a value, b and c further operands, e the member mask; d result, target the predicate
/// result.
void gather(Lanes &all, const Warp &warp, const Instr &in, uint32_t lanes) {
  const uint32_t predicates = in.y & kPredicateValue ? warp.predicate(in.a) : 0;
  eachLane(lanes, [&](uint32_t lane) {
    all.a[lane] = in.y & kPredicateValue ? predicates >> lane & 1
                  : in.a == kNoRef       ? 0
                  : in.y & kWideValue    ? warp.src<uint64_t>(in.a)[lane]
                                         : warp.src<uint32_t>(in.a)[lane];
    all.b[lane] = in.b == kNoRef ? 0 : warp.src<uint32_t>(in.b)[lane];
    all.c[lane] = in.c == kNoRef ? 0 : warp.src<uint32_t>(in.c)[lane];
    all.mask[lane] = in.e == kNoRef ? warp.live : warp.src<uint32_t>(in.e)[lane];
  });
}

void scatter(const Lanes &all, Warp &warp, const Instr &in, uint32_t lanes) {
  if (in.y & kPredicateResult) {
    warp.setPredicate(in.d, all.predicate, lanes);
  } else if (!(in.y & kNoResult)) {
    storeLanes(warp.dst<uint32_t>(in.d), lanes,
               [&](uint32_t i) { return static_cast<uint32_t>(all.result[i]); });
  }
  warp.setPredicate(in.target, all.predicate, lanes);
}

bool sameCollective(const Instr &a, const Instr &b) {
  return a.collective == b.collective && a.x == b.x && a.y == b.y;
}

/// Lanes of other groups that wait at the same collective.
uint32_t waiting(const Warp &warp, const Instr &in) {
  uint32_t lanes = 0;
  for (const Split &split : warp.splits) {
    if (split.state == SplitState::AtCollective && sameCollective(warp.code[split.pc], in)) {
      lanes |= split.wait_lanes;
    }
  }
  return lanes;
}

[[noreturn]] void lacking(const Warp &warp, const Instr &in, uint32_t lane, uint32_t mask) {
  fail(warp, in, lane, FaultCode::LaunchFailed,
       format("warp collective with mask %08x executed by lane %u, which is not in it", mask, lane));
}

Step collective(Warp &warp, const Instr &in, uint32_t lanes) {
  Lanes all;
  all.warp = &warp;
  gather(all, warp, in, lanes);
  uint32_t needed = 0;
  eachLane(lanes, [&](uint32_t lane) {
    if (!(all.mask[lane] >> lane & 1)) {
      lacking(warp, in, lane, all.mask[lane]);
    }
    needed |= all.mask[lane];
  });
  needed &= warp.live; // lanes that have exited are not waited for
  uint32_t here = lanes;
  if (needed & ~lanes) {
    here |= waiting(warp, in);
    if (needed & ~here) {
      warp.waitAt(SplitState::AtCollective, 0, lanes);
      return Step::Wait;
    }
    for (const Split &split : warp.splits) {
      if (split.state == SplitState::AtCollective && sameCollective(warp.code[split.pc], in)) {
        gather(all, warp, warp.code[split.pc], split.wait_lanes);
      }
    }
  }
  for (uint32_t left = here; left;) {
    const uint32_t mask = all.mask[firstLane(left)];
    uint32_t group = 0;
    eachLane(left, [&](uint32_t lane) { group |= uint32_t(all.mask[lane] == mask) << lane; });
    if (group != (mask & warp.live)) {
      const uint32_t lane = firstLane((mask & warp.live) & ~group ? (mask & warp.live) & ~group : group);
      fail(warp, in, lane, FaultCode::LaunchFailed,
           format("lanes of one warp collective name different masks: %08x and %08x", mask, all.mask[lane]));
    }
    in.collective(all, group, in);
    left &= ~group;
  }
  scatter(all, warp, in, lanes);
  if (here != lanes) {
    for (Split &split : warp.splits) {
      if (split.state == SplitState::AtCollective && sameCollective(warp.code[split.pc], in)) {
        scatter(all, warp, warp.code[split.pc], split.wait_lanes);
        warp.release(split, true);
      }
    }
    ++warp.cta->progress;
  }
  return Step::Next;
}

// What each does, by the PTX ISA's definitions.

void syncWarp(Lanes &all, uint32_t, const Instr &) {
  if (all.warp->cta->checker) {
    ++all.warp->sync;
  }
}

/// x: up, down, bfly, idx. b is the lane or distance, c the clamp and segment mask.
void shuffle(Lanes &all, uint32_t lanes, const Instr &in) {
  eachLane(lanes, [&](uint32_t lane) {
    const uint32_t by = all.b[lane] & 31, clamp = all.c[lane] & 31, segment = all.c[lane] >> 8 & 31;
    const uint32_t last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    int from;
    bool valid;
    switch (in.x) {
    case 0:
      from = static_cast<int>(lane) - static_cast<int>(by);
      valid = from >= static_cast<int>(last);
      break;
    case 1:
      from = static_cast<int>(lane + by);
      valid = from <= static_cast<int>(last);
      break;
    case 2:
      from = static_cast<int>(lane ^ by);
      valid = from <= static_cast<int>(last);
      break;
    default:
      from = static_cast<int>(first | (by & ~segment));
      valid = from <= static_cast<int>(last);
      break;
    }
    from = valid ? from : static_cast<int>(lane);
    if (!(lanes >> from & 1)) {
      fail(*all.warp, in, lane, FaultCode::LaunchFailed,
           format("shfl reads lane %d, which does not take part (mask %08x)", from, lanes));
    }
    all.result[lane] = all.a[from];
    all.predicate = (all.predicate & ~(1u << lane)) | uint32_t(valid) << lane;
  });
}

/// x: ballot, any, all, uni.
void vote(Lanes &all, uint32_t lanes, const Instr &in) {
  uint32_t yes = 0;
  eachLane(lanes, [&](uint32_t lane) { yes |= static_cast<uint32_t>(all.a[lane]) << lane; });
  const bool holds = in.x == 1 ? yes != 0 : in.x == 2 ? yes == lanes : yes == 0 || yes == lanes;
  eachLane(lanes, [&](uint32_t lane) { all.result[lane] = yes; });
  all.predicate = (all.predicate & ~lanes) | (holds ? lanes : 0);
}

/// x: add, and, or, xor, then min and max of u32 and s32, then min and max of f32 with abs (bit 4) and NaN
/// (bit 5).
void reduceLanes(Lanes &all, uint32_t lanes, const Instr &in) {
  uint32_t sum = static_cast<uint32_t>(all.a[firstLane(lanes)]);
  bool nan = false;
  bool first = true;
  float extreme = 0;
  eachLane(lanes, [&](uint32_t lane) {
    const auto v = static_cast<uint32_t>(all.a[lane]);
    if ((in.x & 15) >= 8) {
      const float f = in.x & 16 ? std::fabs(std::bit_cast<float>(v)) : std::bit_cast<float>(v);
      nan |= f != f;
      extreme = first ? f : (in.x & 1) ? std::fmax(extreme, f) : std::fmin(extreme, f);
      first = false;
      return;
    }
    if (first) {
      first = false;
      return;
    }
    switch (in.x) {
    case 0:
      sum += v;
      break;
    case 1:
      sum &= v;
      break;
    case 2:
      sum |= v;
      break;
    case 3:
      sum ^= v;
      break;
    case 4:
      sum = std::min(sum, v);
      break;
    case 5:
      sum = std::max(sum, v);
      break;
    case 6:
      sum = static_cast<uint32_t>(std::min(static_cast<int32_t>(sum), static_cast<int32_t>(v)));
      break;
    default:
      sum = static_cast<uint32_t>(std::max(static_cast<int32_t>(sum), static_cast<int32_t>(v)));
      break;
    }
  });
  if ((in.x & 15) >= 8) {
    sum = (in.x & 32) && nan ? 0x7fffffffu : std::bit_cast<uint32_t>(extreme);
  }
  eachLane(lanes, [&](uint32_t lane) { all.result[lane] = sum; });
}

/// x: any, all.
void match(Lanes &all, uint32_t lanes, const Instr &in) {
  bool equal = true;
  eachLane(lanes, [&](uint32_t lane) { equal &= all.a[lane] == all.a[firstLane(lanes)]; });
  eachLane(lanes, [&](uint32_t lane) {
    uint32_t same = 0;
    eachLane(lanes, [&](uint32_t other) { same |= uint32_t(all.a[other] == all.a[lane]) << other; });
    all.result[lane] = in.x == 0 ? same : equal ? lanes : 0;
  });
  all.predicate = (all.predicate & ~lanes) | (equal ? lanes : 0);
}

void elect(Lanes &all, uint32_t lanes, const Instr &) {
  eachLane(lanes, [&](uint32_t lane) { all.result[lane] = firstLane(lanes); });
  all.predicate = (all.predicate & ~lanes) | 1u << firstLane(lanes);
}

/// The destination d, or d|p.
void results(Decoding &d, Instr &in) {
  in.d = d.dest(0, 4);
  in.target = d.operand(0).paired ? d.predicateDest(d.operand(0).parts[0]) : kNoRef;
}

void needSync(Decoding &d) {
  if (!d.take("sync")) {
    d.fail("only the .sync form is emulated");
  }
}

void decodeShuffle(Decoding &d, Instr &in) {
  needSync(d);
  const int mode = d.oneOf({"up", "down", "bfly", "idx"});
  if (mode < 0 || bytesOf(d.takeType()) != 4) {
    d.fail("malformed shfl");
  }
  d.done();
  d.expectCount(5, 5);
  in.run = collective;
  in.collective = shuffle;
  in.x = static_cast<uint32_t>(mode);
  results(d, in);
  in.a = d.source(1, 4);
  in.b = d.source(2, 4);
  in.c = d.source(3, 4);
  in.e = d.source(4, 4);
}

void decodeVote(Decoding &d, Instr &in) {
  needSync(d);
  const int mode = d.oneOf({"ballot", "any", "all", "uni"});
  d.takeType();
  d.done();
  if (mode < 0) {
    d.fail("malformed vote");
  }
  in.run = collective;
  in.collective = vote;
  in.x = static_cast<uint32_t>(mode);
  in.y = kPredicateValue | (mode ? kPredicateResult : 0);
  in.d = mode ? d.predicateDest(d.operand(0)) : d.dest(0, 4);
  in.a = d.predicateSource(1);
  in.e = d.source(2, 4);
}

void decodeRedux(Decoding &d, Instr &in) {
  needSync(d);
  const int op = d.oneOf({"add", "and", "or", "xor", "min", "max"});
  const bool absolute = d.take("abs"), nan = d.take("NaN");
  const Type type = d.takeType();
  if (op < 0) {
    d.fail("malformed redux");
  }
  in.run = collective;
  in.collective = reduceLanes;
  in.x = static_cast<uint32_t>(op);
  if (op >= 4 && type == Type::F32) {
    in.x = 8u + static_cast<uint32_t>(op - 4) + (absolute ? 16 : 0) + (nan ? 32 : 0);
  } else if (op >= 4 && isSigned(type)) {
    in.x += 2;
  }
  operands(d, in, 4, 2, Type::B32);
  in.e = in.b;
  in.b = kNoRef;
}

void decodeMatch(Decoding &d, Instr &in) {
  const int mode = d.oneOf({"any", "all"});
  needSync(d);
  const uint32_t bytes = bytesOf(d.takeType());
  d.done();
  if (mode < 0) {
    d.fail("malformed match");
  }
  in.run = collective;
  in.collective = match;
  in.x = static_cast<uint32_t>(mode);
  in.y = bytes == 8 ? kWideValue : 0;
  results(d, in);
  in.a = d.source(1, bytes);
  in.e = d.source(2, 4);
}

void decodeElect(Decoding &d, Instr &in) {
  needSync(d);
  d.done();
  in.run = collective;
  in.collective = elect;
  results(d, in);
  in.e = d.source(1, 4);
}

Step activeMask(Warp &warp, const Instr &in, uint32_t lanes) {
  storeLanes(warp.dst<uint32_t>(in.d), lanes, [&](uint32_t) { return lanes; });
  return Step::Next;
}

void decodeActiveMask(Decoding &d, Instr &in) {
  d.takeType();
  d.done();
  in.run = activeMask;
  in.d = d.dest(0, 4);
}

} // namespace

void decodeWarpBarrier(Decoding &d, Instr &in) {
  needSync(d);
  d.done();
  in.run = collective;
  in.collective = syncWarp;
  in.y = kNoResult;
  in.target = kNoRef;
  in.e = d.source(0, 4);
}

void addCollectives(DecodeTable &table) {
  table["shfl"] = decodeShuffle;
  table["vote"] = decodeVote;
  table["redux"] = decodeRedux;
  table["match"] = decodeMatch;
  table["elect"] = decodeElect;
  table["activemask"] = decodeActiveMask;
}

} // namespace smelt::emu
