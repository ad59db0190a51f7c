#include "tests/support/cuda/sim/Control.h"

#include "tests/support/cuda/sim/Cta.h"
#include "tests/support/cuda/sim/Groups.h"

#include <chrono>

namespace smelt::emu {
namespace {

Step branch(Warp &warp, const Instr &in, uint32_t lanes) {
  warp.jump(in, lanes);
  return Step::Jumped;
}

Step leave(Warp &warp, const Instr &in, uint32_t lanes) {
  warp.cta->exited += static_cast<uint32_t>(__builtin_popcount(lanes));
  ++warp.cta->progress;
  warp.exitLanes(lanes);
  return Step::Jumped;
}

Step trap(Warp &warp, const Instr &in, uint32_t lanes) {
  fail(warp, in, firstLane(lanes), FaultCode::LaunchFailed, "the kernel executed a trap");
}

Step nothing(Warp &, const Instr &, uint32_t) { return Step::Next; }
Step pause(Warp &, const Instr &, uint32_t) { return Step::Yield; }

uint64_t ticks() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

Step clock(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint64_t now = in.x ? ticks() : warp.cta->executed;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if (lanes >> lane & 1) {
      if (in.y == 8) {
        warp.dst<uint64_t>(in.d)[lane] = now;
      } else {
        warp.dst<uint32_t>(in.d)[lane] = static_cast<uint32_t>(in.z ? now >> 32 : now);
      }
    }
  }
  return Step::Next;
}

void decodeBranch(Decoding &d, Instr &in) {
  d.take("uni");
  d.done();
  d.expectCount(1, 1);
  in.run = branch;
  in.target = static_cast<uint32_t>(d.operand(0).value);
}

void decodeExit(Decoding &d, Instr &in) {
  d.take("uni");
  d.done();
  in.run = leave;
}

void decodeTrap(Decoding &d, Instr &in) {
  d.done();
  in.run = trap;
}

void decodeSleep(Decoding &d, Instr &in) {
  d.take("u32");
  d.done();
  in.run = pause;
}

/// Hints and launch control that have no effect on results here.
void decodeNothing(Decoding &d, Instr &in) { in.run = nothing; }

/// A launch starts when the one before has ended, so neither form does anything.
void decodeGriddepcontrol(Decoding &d, Instr &in) {
  const int form = d.oneOf({"wait", "launch_dependents"});
  if (form < 0) {
    d.fail("malformed griddepcontrol");
  }
  d.done();
  d.layout.program.waits_for_previous |= form == 0;
  in.run = nothing;
}

void decodeSetmaxnreg(Decoding &d, Instr &in) {
  if (d.oneOf({"inc", "dec"}) < 0 || !d.take("sync") || !d.take("aligned") || !d.take("u32")) {
    d.fail("malformed setmaxnreg");
  }
  const int64_t count = d.integer(0);
  if (count < 24 || count > 256 || count % 8) {
    d.fail("setmaxnreg takes a multiple of 8 from 24 to 256");
  }
  if (d.layout.kernel.reqntid[0] == 0 && d.layout.kernel.maxntid[0] == 0) {
    d.fail("setmaxnreg needs .reqntid or .maxntid");
  }
  in.run = nothing;
  in.flags |= kAligned;
}

} // namespace

bool isBranch(const Instr &in) { return in.run == branch; }
bool isExit(const Instr &in) { return in.run == leave || in.run == trap; }

bool decodeClock(Decoding &d, Instr &in, const std::string &name, uint32_t bytes) {
  const bool timer = name.starts_with("%globaltimer");
  if (!timer && name != "%clock" && name != "%clock64" && name != "%clock_hi") {
    return false;
  }
  in.run = clock;
  in.x = timer;
  in.y = bytes;
  in.z = name.ends_with("_hi");
  in.d = d.dest(0, bytes);
  return true;
}

void addControl(DecodeTable &table) {
  table["bra"] = decodeBranch;
  table["ret"] = table["exit"] = decodeExit;
  table["trap"] = table["brkpt"] = decodeTrap;
  table["nanosleep"] = decodeSleep;
  table["setmaxnreg"] = decodeSetmaxnreg;
  table["griddepcontrol"] = decodeGriddepcontrol;
  for (const char *hint : {"prefetch", "prefetchu", "discard", "applypriority", "pmevent"}) {
    table[hint] = decodeNothing;
  }
}

} // namespace smelt::emu
