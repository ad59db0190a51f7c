#include "tests/support/cuda/sim/Cta.h"

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <numeric>

namespace smelt::emu {
namespace {

constexpr uint64_t kBudget = 1 << 16; ///< warp instructions before another warp has its turn
constexpr uint64_t kStepLimit = uint64_t(1)
                                << 33; ///< warp instructions of one CTA; then the launch timed out
constexpr uint8_t kPoison = 0xff;      ///< shared memory before the first write: NaN in every format

} // namespace

std::string format(const char *text, ...) {
  va_list arguments;
  va_start(arguments, text);
  char buffer[1024];
  const int length = vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return std::string(buffer, static_cast<size_t>(std::clamp(length, 0, static_cast<int>(sizeof buffer) - 1)));
}

void fail(const Warp &warp, const Instr &in, uint32_t lane, FaultCode code, const std::string &reason) {
  const Cta &cta = *warp.cta;
  const Dim3 thread = cta.threadIndex(cta.thread(warp, lane));
  std::string text = warp.program->text(in);
  text.erase(0, text.find_first_not_of(" \t"));
  throw Fault(code, format("kernel %s, PTX line %u (%s), CTA (%u,%u,%u), thread (%u,%u,%u): ",
                           warp.program->name.c_str(), in.line, text.c_str(), cta.index.x, cta.index.y,
                           cta.index.z, thread.x, thread.y, thread.z) +
                        reason);
}

Cta::Cta(Launch &launch, uint32_t linear)
    : launch(launch), linear(linear), id(launch.first_cta + 1 + linear),
      index{linear % launch.grid.x, linear / launch.grid.x % launch.grid.y,
            linear / launch.grid.x / launch.grid.y},
      threads(static_cast<uint32_t>(launch.block.count())), random(launch.options.seed * 7919 + linear) {
  const Program &program = *launch.program;
  shared_bytes = program.dynamic_start + launch.dynamic_shared;
  if (launch.dynamic_shared == 0) {
    shared_bytes = program.static_shared;
  }
  shared_storage.assign(shared_bytes + 2048, kPoison);
  shared = reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(shared_storage.data()) + 1023) &
                                       ~uintptr_t(1023));
  if (launch.options.check) {
    checker = std::make_unique<SharedChecker>(shared_bytes);
  }
  const uint32_t count = (threads + kWarpSize - 1) / kWarpSize;
  warps.resize(count);
  order.resize(count);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i = 0; i < count; ++i) {
    Warp &warp = warps[i];
    warp.cta = this;
    warp.program = &program;
    warp.code = program.code.data();
    warp.index = i;
    warp.registers.assign(program.register_bytes + 64, 0);
    warp.base[0] = reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(warp.registers.data()) + 63) &
                                               ~uintptr_t(63));
    warp.base[1] = const_cast<uint8_t *>(program.constants.data());
    warp.local.assign(size_t(program.local_bytes) * kWarpSize, kPoison);
    warp.clocks.assign(count, 0);
    warp.clocks[i] = 1;
    const uint32_t lanes = std::min(threads - i * kWarpSize, kWarpSize);
    warp.reset(lanes == kWarpSize ? ~0u : (1u << lanes) - 1);
    fillSpecials(warp);
  }
}

Dim3 Cta::threadIndex(uint32_t thread) const {
  const Dim3 &block = launch.block;
  return {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
}

void Cta::fillSpecials(Warp &warp) {
  const auto value = [&](SpecialKind kind, uint32_t lane) -> uint64_t {
    const Dim3 tid = threadIndex(thread(warp, lane));
    switch (kind) {
    case SpecialKind::TidX:
      return tid.x;
    case SpecialKind::TidY:
      return tid.y;
    case SpecialKind::TidZ:
      return tid.z;
    case SpecialKind::NtidX:
      return launch.block.x;
    case SpecialKind::NtidY:
      return launch.block.y;
    case SpecialKind::NtidZ:
      return launch.block.z;
    case SpecialKind::CtaidX:
      return index.x;
    case SpecialKind::CtaidY:
      return index.y;
    case SpecialKind::CtaidZ:
      return index.z;
    case SpecialKind::NctaidX:
      return launch.grid.x;
    case SpecialKind::NctaidY:
      return launch.grid.y;
    case SpecialKind::NctaidZ:
      return launch.grid.z;
    case SpecialKind::Lane:
      return lane;
    case SpecialKind::WarpId:
      return warp.index;
    case SpecialKind::WarpCount:
      return warps.size();
    case SpecialKind::Smid:
      return linear % 132;
    case SpecialKind::Gridid:
      return launch.grid_id;
    case SpecialKind::MaskEq:
      return 1u << lane;
    case SpecialKind::MaskLe:
      return (2ull << lane) - 1;
    case SpecialKind::MaskLt:
      return (1u << lane) - 1;
    case SpecialKind::MaskGe:
      return ~((1u << lane) - 1);
    case SpecialKind::MaskGt:
      return static_cast<uint32_t>(~((2ull << lane) - 1));
    case SpecialKind::DynamicShared:
      return launch.dynamic_shared;
    case SpecialKind::TotalShared:
      return shared_bytes;
    case SpecialKind::One:
      return 1;
    case SpecialKind::Zero:
      break;
    }
    return 0;
  };
  for (const SpecialSlot &slot : warp.program->specials) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      if (slot.wide) {
        warp.dst<uint64_t>(slot.offset)[lane] = value(slot.kind, lane);
      } else {
        warp.dst<uint32_t>(slot.offset)[lane] = static_cast<uint32_t>(value(slot.kind, lane));
      }
    }
  }
}

CtaState Cta::run() {
  for (;;) {
    if (launch.options.seed) {
      std::shuffle(order.begin(), order.end(), random);
    }
    const uint64_t before = progress;
    bool ran = false, alive = false, only_polls = true;
    for (const uint32_t at : order) {
      Warp &warp = warps[at];
      if (warp.done()) {
        continue;
      }
      alive = true;
      if (!warp.anyReady()) {
        continue;
      }
      ran = true;
      const uint64_t budget = launch.options.seed ? 1 + random() % 64 : kBudget;
      only_polls &= warp.run(budget) == Step::Yield;
    }
    if (!alive) {
      return CtaState::Done;
    }
    if (!ran) {
      deadlock();
    }
    if (only_polls && progress == before) {
      return CtaState::Spinning;
    }
    if (executed > kStepLimit) {
      throw Fault(FaultCode::LaunchTimeout,
                  format("kernel %s: CTA %u has executed %llu warp instructions and is not done",
                         launch.program->name.c_str(), linear, static_cast<unsigned long long>(executed)));
    }
  }
}

void Cta::deadlock() {
  std::string text =
      format("kernel %s: deadlock in CTA (%u,%u,%u), nobody can go on:", launch.program->name.c_str(),
             index.x, index.y, index.z);
  for (const Warp &warp : warps) {
    if (warp.done()) {
      text += format("\n  warp %u: exited", warp.index);
    }
    for (const Split &split : warp.splits) {
      const Instr &in = warp.code[split.pc];
      std::string source = launch.program->text(in);
      source.erase(0, source.find_first_not_of(" \t"));
      text += format("\n  warp %u, lanes %08x: waits at line %u: %s", warp.index, split.lanes, in.line,
                     source.c_str());
    }
  }
  throw Fault(FaultCode::LaunchTimeout, text);
}

} // namespace smelt::emu
