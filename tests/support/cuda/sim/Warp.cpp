#include "tests/support/cuda/sim/Warp.h"

#include "tests/support/cuda/sim/Cta.h"

#include <algorithm>

namespace smelt::emu {

void Warp::reset(uint32_t lanes_existing) {
  exist = live = lanes_existing;
  pc = 0;
  lanes = lanes_existing;
  join = -1;
  current = 0;
  splits.assign(1, Split{.pc = 0, .lanes = lanes_existing});
  joins.clear();
  recent = nullptr;
  sync = 1;
  foreign = fenced_release = relaxed_acquire = nullptr;
  copies.clear();
  bulk_stores.clear();
  wgmmas.clear();
  unfenced.clear();
  std::fill(std::begin(copy_groups), std::end(copy_groups), 0);
  std::fill(std::begin(bulk_groups), std::end(bulk_groups), 0);
  wgmma_groups = 0;
  wgmma_fenced = false;
}

bool Warp::anyReady() const {
  return std::any_of(splits.begin(), splits.end(),
                     [](const Split &s) { return s.state == SplitState::Ready; });
}

void Warp::save() {
  if (current < splits.size()) {
    splits[current].pc = pc;
    splits[current].lanes = lanes;
    splits[current].join = join;
  }
}

/// Makes a ready split the running one: the youngest, or after a yield the oldest.
bool Warp::pick(bool others_first) {
  const size_t count = splits.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t at = others_first ? (current + 1 + i) % count : count - 1 - i;
    if (splits[at].state == SplitState::Ready) {
      current = static_cast<uint32_t>(at);
      pc = splits[at].pc;
      lanes = splits[at].lanes;
      join = splits[at].join;
      return true;
    }
  }
  current = static_cast<uint32_t>(count);
  lanes = 0;
  return false;
}

int32_t Warp::newJoin(uint32_t at, uint32_t pending) {
  size_t slot = 0;
  while (slot < joins.size() && joins[slot].used) {
    ++slot;
  }
  if (slot == joins.size()) {
    joins.emplace_back();
  }
  joins[slot] = {.pc = at, .pending = pending, .arrived = 0, .parent = join, .used = true};
  return static_cast<int32_t>(slot);
}

void Warp::jump(const Instr &in, uint32_t taken) {
  const uint32_t fallen = lanes & ~taken;
  if (!fallen) {
    pc = in.target;
    return;
  }
  if (in.reconverge != kNoPc && (join < 0 || joins[join].pc != in.reconverge)) {
    join = newJoin(in.reconverge, lanes);
  }
  lanes = fallen;
  ++pc;
  splits.push_back({.pc = in.target, .lanes = taken, .join = join});
}

/// The running split stands at its meeting point: it goes on if it is the last to arrive, and ends otherwise.
void Warp::meet() {
  Join &here = joins[join];
  here.arrived |= lanes;
  here.pending &= ~lanes;
  if (here.pending == 0) {
    lanes = here.arrived;
    here.used = false;
    join = here.parent;
    return;
  }
  splits.erase(splits.begin() + current);
  pick(false);
}

/// No lane of join `at` is pending any more: those that arrived go on from it.
void Warp::closeJoin(int32_t at) {
  Join &closed = joins[at];
  closed.used = false;
  if (closed.arrived) {
    splits.push_back({.pc = closed.pc, .lanes = closed.arrived, .join = closed.parent});
  }
}

void Warp::exitLanes(uint32_t gone) {
  live &= ~gone;
  lanes &= ~gone;
  for (Split &split : splits) {
    if (split.state == SplitState::AtCollective) {
      release(split, false); // it may have waited for those that left
    }
  }
  for (int32_t at = join; at >= 0;) {
    Join &chain = joins[at];
    const int32_t parent = chain.parent;
    chain.pending &= ~gone;
    if (chain.used && chain.pending == 0) {
      closeJoin(at);
    }
    at = parent;
  }
  if (lanes == 0) {
    splits.erase(splits.begin() + current);
    pick(false);
  } else {
    ++pc;
  }
}

void Warp::waitAt(SplitState state, uint64_t on, uint32_t executing, uint32_t value) {
  Split &split = splits[current];
  split.state = state;
  split.wait_on = on;
  split.wait_lanes = executing;
  split.wait_value = value;
  save();
}

void Warp::release(Split &split, bool advance) {
  split.state = SplitState::Ready;
  split.pc += advance ? 1 : 0;
}

Step Warp::run(uint64_t budget) {
  if (current >= splits.size() || splits[current].state != SplitState::Ready || lanes == 0) {
    if (!pick(false)) {
      return Step::Wait;
    }
  } else {
    pc = splits[current].pc;
  }
  uint64_t executed = 0;
  Step result = Step::Next;
  while (lanes != 0) {
    const Instr &in = code[pc];
    if ((in.flags & kJoinPoint) && join >= 0 && joins[join].pc == pc) {
      meet();
      continue;
    }
    if (++executed > budget) {
      break;
    }
    uint32_t active = lanes;
    if (in.guard != kNoRef) {
      active &= predicate(in.guard);
      if (!active) {
        ++pc;
        continue;
      }
    }
    if ((in.flags & kAligned) && active != live) {
      fail(*this, in, firstLane(active), FaultCode::LaunchFailed,
           format("divergent warp at an .aligned instruction: lanes %08x execute it, %08x of the warp have "
                  "not exited",
                  active, live));
    }
    const Step step = in.run(*this, in, active);
    if (step == Step::Next) {
      ++pc;
    } else if (step == Step::Wait) {
      if (!pick(false)) {
        result = Step::Wait;
      }
    } else if (step == Step::Yield) {
      ++pc;
      save();
      pick(true);
      result = Step::Yield;
      break;
    }
  }
  save();
  cta->executed += executed;
  return lanes == 0 ? Step::Wait : result;
}

} // namespace smelt::emu
