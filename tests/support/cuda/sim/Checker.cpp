#include "tests/support/cuda/sim/Checker.h"

#include "tests/support/cuda/sim/Cta.h"

#include <algorithm>
#include <cstring>

namespace smelt::emu {
namespace {

/// The access being checked.
struct Access {
  Warp &warp;
  const Instr &in;
  uint32_t lane, thread, flags;
  bool shared;
  const char *place() const { return shared ? "shared memory" : "global memory"; }
  bool writes() const { return flags & kWrite; }
};

/// True if the stamp stands for no access: shared memory is another CTA's before.
bool isVoid(const Stamp &stamp, const Access &now) {
  return stamp.cta == 0 || (now.shared && stamp.cta != now.warp.cta->id);
}

bool happenedBefore(const Stamp &stamp, const Access &now) {
  const Cta &cta = *now.warp.cta;
  if (stamp.cta != cta.id) {
    if (stamp.cta <= cta.launch.first_cta) {
      return true; // an earlier launch
    }
    if (!now.warp.foreign) {
      return false;
    }
    const auto known = now.warp.foreign->find(stamp.cta);
    // An atomic comes after the fence whose clock was passed on: knowing its CTA at all must do.
    return known != now.warp.foreign->end() &&
           (stamp.atomic || stamp.clock <= known->second[stamp.thread / kWarpSize]);
  }
  if (stamp.thread == now.thread) {
    return true;
  }
  const uint32_t warp = stamp.thread / kWarpSize;
  return warp == now.warp.index ? stamp.sync < now.warp.sync : stamp.clock <= now.warp.clocks[warp];
}

[[noreturn]] void report(const Access &now, const Stamp &earlier, const char *earlier_kind) {
  const Cta &cta = *now.warp.cta;
  const auto &lines = now.warp.program->module->lines;
  const std::string text = earlier.line >= 1 && earlier.line <= lines.size() ? lines[earlier.line - 1] : "";
  fail(
      now.warp, now.in, now.lane, FaultCode::LaunchFailed,
      format(
          "race on %s: this %s and an earlier %s by thread %u of CTA %u at line %u (%s): nothing orders them",
          now.place(), now.writes() ? "write" : "read", earlier_kind, static_cast<unsigned>(earlier.thread),
          earlier.cta - cta.launch.first_cta - 1, static_cast<unsigned>(earlier.line), text.c_str()));
}

/// `same` tells whether the write stores what is there already.
void checkCell(const Cell &cell, const Access &now, uint32_t mask, bool same) {
  for (const Stamp &write : cell.writes) {
    if (!(write.bytes & mask) || isVoid(write, now)) {
      continue;
    }
    if (write.in_flight && write.cta == now.warp.cta->id && !(now.flags & kLanding)) {
      fail(now.warp, now.in, now.lane, FaultCode::LaunchFailed,
           format("%s of %s that an asynchronous copy issued at line %u by thread %u still writes: wait for "
                  "it first",
                  now.writes() ? "write" : "read", now.place(), static_cast<unsigned>(write.line),
                  static_cast<unsigned>(write.thread)));
    }
    if (!happenedBefore(write, now) && !((now.flags & kAtomic) && write.atomic) && !same) {
      report(now, write, "write");
    }
    if ((now.flags & kAsyncProxy) && !now.writes() && write.unfenced && write.cta == now.warp.cta->id) {
      fail(now.warp, now.in, now.lane, FaultCode::LaunchFailed,
           format("the asynchronous proxy accesses %s that line %u wrote through the generic proxy, without "
                  "fence.proxy.async between",
                  now.place(), static_cast<unsigned>(write.line)));
    }
  }
  if (!now.writes()) {
    return;
  }
  for (const Stamp &read : cell.reads) {
    if ((read.bytes & mask) && !isVoid(read, now) && !same && !((now.flags & kAtomic) && read.atomic) &&
        !happenedBefore(read, now)) {
      report(now, read, "read");
    }
  }
}

Stamp stampOf(const Access &now, uint32_t mask) {
  Stamp stamp;
  stamp.cta = now.warp.cta->id;
  stamp.thread = now.thread;
  stamp.clock = now.warp.clocks[now.warp.index];
  stamp.sync = now.warp.sync;
  stamp.line = std::min<uint32_t>(now.in.line, (1u << 20) - 1);
  stamp.bytes = mask;
  stamp.atomic = (now.flags & kAtomic) != 0;
  stamp.in_flight = (now.flags & kInFlight) != 0;
  return stamp;
}

/// Atomic writes go to the second place while a plain write holds the first: it still has to be ordered
/// before others' accesses.
void recordWrite(Cell &cell, const Access &now, const Stamp &stamp) {
  const bool keep_plain = stamp.atomic && cell.writes[0].cta > now.warp.cta->launch.first_cta &&
                          !isVoid(cell.writes[0], now) && !cell.writes[0].atomic;
  size_t slot = 1;
  for (size_t i = keep_plain ? 1 : 0; i < 2; ++i) {
    const Stamp &old = cell.writes[i];
    if (isVoid(old, now) || !(old.bytes & ~stamp.bytes) || (!old.in_flight && happenedBefore(old, now))) {
      slot = i;
      break;
    }
  }
  cell.writes[slot] = stamp;
  Stamp &other = cell.writes[1 - slot];
  if (!(other.bytes & ~stamp.bytes) && !keep_plain) {
    other.cta = 0;
  }
  for (Stamp &read : cell.reads) {
    if (!(read.bytes & ~stamp.bytes)) {
      read.cta = 0;
    }
  }
}

/// Keeps two concurrent readers, of different warps when there are such.
void recordRead(Cell &cell, const Access &now, const Stamp &stamp) {
  for (Stamp &old : cell.reads) {
    if (isVoid(old, now) ||
        (old.thread == stamp.thread && old.cta == stamp.cta && !(old.bytes & ~stamp.bytes)) ||
        (old.cta == stamp.cta && happenedBefore(old, now) && !(old.bytes & ~stamp.bytes))) {
      old = stamp;
      return;
    }
  }
  const auto place = [](const Stamp &s) { return std::pair(s.cta, s.thread / kWarpSize); };
  if (place(cell.reads[0]) == place(cell.reads[1]) && place(stamp) != place(cell.reads[0])) {
    cell.reads[1] = stamp;
  }
}

} // namespace

namespace {

/// More than any CTA's shared memory; the pages behind it exist once touched.
constexpr uint64_t kShadowBytes = 512 * 1024;

std::vector<std::unique_ptr<ShadowMap<Cell>>> &spareShadows() {
  static std::vector<std::unique_ptr<ShadowMap<Cell>>> spare;
  return spare;
}

} // namespace

SharedChecker::SharedChecker(uint32_t bytes) : initialised(bytes, 0) {
  auto &spare = spareShadows();
  if (spare.empty()) {
    shadow = std::make_unique<ShadowMap<Cell>>();
  } else {
    shadow = std::move(spare.back());
    spare.pop_back();
  }
}

SharedChecker::~SharedChecker() { spareShadows().push_back(std::move(shadow)); }

void SharedChecker::access(Warp &warp, const Instr &in, uint32_t lane, uint32_t offset, uint32_t size,
                           uint32_t flags, const uint8_t *now, const uint8_t *data) {
  const Access access{warp, in, lane, warp.cta->thread(warp, lane), flags, true};
  if (!access.writes() || (flags & kAtomic)) {
    for (uint32_t i = 0; i < size; ++i) {
      if (!initialised[offset + i]) {
        fail(warp, in, lane, FaultCode::LaunchFailed,
             format("read of uninitialised shared memory at offset %u", offset + i));
      }
    }
  } else {
    std::memset(initialised.data() + offset, 1, size);
  }
  const bool same = access.writes() && now && data && std::memcmp(now, data, size) == 0;
  for (uint32_t at = offset & ~3u; at < offset + size; at += 4) {
    const uint32_t first = std::max(at, offset) - at, last = std::min(at + 4, offset + size) - at;
    const uint32_t mask = ((1u << last) - 1) & ~((1u << first) - 1);
    Cell &cell = shadow->at(static_cast<uint32_t>(at), kShadowBytes);
    checkCell(cell, access, mask, same);
    Stamp stamp = stampOf(access, mask);
    if (!access.writes()) {
      recordRead(cell, access, stamp);
      continue;
    }
    if (warp.program->async_proxy && !(flags & kAsyncProxy)) {
      stamp.unfenced = 1;
      warp.unfenced.push_back(at);
    }
    recordWrite(cell, access, stamp);
  }
}

void SharedChecker::markInitialised(uint32_t offset, uint32_t size) {
  std::memset(initialised.data() + offset, 1, size);
}

void SharedChecker::proxyFence(Warp &warp) {
  const Instr none;
  const Access here{warp, none, 0, ~0u, 0, true};
  for (Warp &writer : warp.cta->warps) {
    std::erase_if(writer.unfenced, [&](uint64_t at) {
      Cell &cell = shadow->at(static_cast<uint32_t>(at), kShadowBytes);
      bool left = false;
      for (Stamp &write : cell.writes) {
        const bool own = write.thread / kWarpSize == warp.index;
        if (write.cta == warp.cta->id && write.unfenced && (own || happenedBefore(write, here))) {
          write.unfenced = 0;
        }
        left |= write.unfenced && write.cta == warp.cta->id;
      }
      return !left;
    });
  }
}

namespace {

/// A launch that reads a word through the read-only path may not write it, whatever the order.
[[noreturn]] void readOnlyConflict(const Access &now, const char *what) {
  fail(now.warp, now.in, now.lane, FaultCode::LaunchFailed,
       format("%s in the same launch: ld.global.nc is for memory that nobody writes while the kernel runs",
              what));
}

void readOnly(const Access &now, Allocation &allocation, uint64_t offset, uint32_t size) {
  const uint32_t launch = now.warp.cta->launch.first_cta + 1;
  for (uint64_t at = offset & ~uint64_t(3); at < offset + size; at += 4) {
    WordTags &tags = allocation.tags.at(at, allocation.bytes);
    if (tags.written == launch) {
      readOnlyConflict(now, "this read-only load reads what was written");
    }
    tags.read_only = launch;
  }
}

void markWrite(const Access &now, Allocation &allocation, uint64_t at) {
  const uint32_t launch = now.warp.cta->launch.first_cta + 1;
  WordTags &tags = allocation.tags.at(at, allocation.bytes);
  if (tags.read_only == launch) {
    readOnlyConflict(now, "this writes what was read through the read-only path");
  }
  tags.written = launch;
}

} // namespace

void checkGlobal(Warp &warp, const Instr &in, uint32_t lane, Allocation &allocation, uint64_t offset,
                 uint32_t size, uint32_t flags, const uint8_t *now, const uint8_t *data) {
  const Access access{warp, in, lane, warp.cta->thread(warp, lane), flags, false};
  if (!allocation.written.empty()) {
    if (!access.writes() && !allocation.allWritten(offset, size)) {
      fail(warp, in, lane, FaultCode::LaunchFailed,
           format("read of device memory that was never written: byte %llu of the allocation at 0x%llx",
                  static_cast<unsigned long long>(offset),
                  static_cast<unsigned long long>(allocation.begin)));
    }
    if (access.writes()) {
      allocation.markWritten(offset, size);
    }
  }
  if (flags & kReadOnly) {
    return readOnly(access, allocation, offset, size);
  }
  const bool same = access.writes() && now && data && std::memcmp(now, data, size) == 0;
  for (uint64_t at = offset & ~uint64_t(3); at < offset + size; at += 4) {
    if (access.writes()) {
      markWrite(access, allocation, at);
    }
    const uint64_t first = std::max(at, offset) - at, last = std::min(at + 4, offset + size) - at;
    const uint32_t mask = ((1u << last) - 1) & ~((1u << first) - 1);
    Cell &cell = allocation.shadow.at(at, allocation.bytes);
    checkCell(cell, access, mask, same);
    const Stamp stamp = stampOf(access, mask);
    if (access.writes()) {
      recordWrite(cell, access, stamp);
    } else {
      recordRead(cell, access, stamp);
    }
  }
}

void joinClocks(WarpClocks &into, const WarpClocks &from) {
  into.resize(std::max(into.size(), from.size()));
  for (size_t i = 0; i < from.size(); ++i) {
    into[i] = std::max(into[i], from[i]);
  }
}

void advanceWarp(Warp &warp) {
  ++warp.clocks[warp.index];
  ++warp.sync;
}

void joinForeign(std::shared_ptr<const ForeignClocks> &into,
                 const std::shared_ptr<const ForeignClocks> &from) {
  if (!from || into == from) {
    return;
  }
  if (!into) {
    into = from;
    return;
  }
  auto joined = std::make_shared<ForeignClocks>(*into);
  for (const auto &[cta, clocks] : *from) {
    joinClocks((*joined)[cta], clocks);
  }
  into = std::move(joined);
}

namespace {

/// What the warp can vouch for: its CTA's clocks as it knows them, and what it knows of other CTAs.
std::shared_ptr<const ForeignClocks> snapshot(Warp &warp) {
  auto known =
      warp.foreign ? std::make_shared<ForeignClocks>(*warp.foreign) : std::make_shared<ForeignClocks>();
  joinClocks((*known)[warp.cta->id], warp.clocks);
  ++warp.clocks[warp.index];
  return known;
}

} // namespace

void fenceGlobal(Warp &warp) {
  joinForeign(warp.foreign, warp.relaxed_acquire);
  warp.fenced_release = snapshot(warp);
}

void atomicGlobal(Warp &warp, uint64_t address, bool release, bool acquire, bool writes) {
  auto &left = warp.cta->launch.order.released[address];
  joinForeign(acquire ? warp.foreign : warp.relaxed_acquire, left);
  if (writes) {
    joinForeign(left, release ? snapshot(warp) : warp.fenced_release);
  }
}

} // namespace smelt::emu
