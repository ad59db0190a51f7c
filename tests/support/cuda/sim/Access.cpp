#include "tests/support/cuda/sim/Access.h"

#include "tests/support/cuda/sim/Handlers.h"

namespace smelt::emu {
namespace {

using ull = unsigned long long;

const char *verb(uint32_t flags) { return flags & kWrite ? "write" : "read"; }

[[noreturn]] void misaligned(const Warp &warp, const Instr &in, uint32_t lane, uint64_t address,
                             uint32_t bytes, uint32_t align, uint32_t flags) {
  fail(warp, in, lane, FaultCode::MisalignedAddress,
       format("misaligned %s of %u bytes at address 0x%llx: needs a multiple of %u", verb(flags), bytes,
              ull(address), align));
}

void count(Allocation &allocation, uint64_t offset, uint32_t bytes, uint32_t flags) {
  if (allocation.counts &&
      !(flags & (kNoRecord | kNoCount))) { // a copy that lands was counted when it was issued
    allocation.counts->add(offset, bytes, flags & kWrite);
  }
}

uint8_t *inShared(Warp &warp, const Instr &in, uint32_t lane, uint64_t offset, uint32_t bytes, uint32_t flags,
                  const uint8_t *data) {
  Cta &cta = *warp.cta;
  if (offset > cta.shared_bytes || bytes > cta.shared_bytes - offset) {
    fail(warp, in, lane, FaultCode::IllegalAddress,
         format("out-of-bounds shared %s of %u bytes at offset %llu (0x%llx): the CTA has %u bytes (%u "
                "static, %u dynamic)",
                verb(flags), bytes, ull(offset), ull(offset), cta.shared_bytes, warp.program->static_shared,
                cta.launch.dynamic_shared));
  }
  uint8_t *host = cta.shared + offset;
  if (cta.checker && !(flags & kNoRecord)) {
    cta.checker->access(warp, in, lane, static_cast<uint32_t>(offset), bytes, flags, host, data);
  }
  return host;
}

uint8_t *inGlobal(Warp &warp, const Instr &in, uint32_t lane, uint64_t address, uint32_t bytes,
                  uint32_t flags, const uint8_t *data) {
  Allocation *allocation = warp.recent;
  if (!allocation || !allocation->contains(address, bytes)) {
    allocation = deviceMemory().find(address, bytes);
    if (!allocation) {
      fail(warp, in, lane, FaultCode::IllegalAddress,
           format("out-of-bounds global %s of %u bytes at address 0x%llx: %s", verb(flags), bytes,
                  ull(address), deviceMemory().describe(address).c_str()));
    }
    warp.recent = allocation;
  }
  if (allocation->constant && (flags & kWrite)) {
    fail(warp, in, lane, FaultCode::IllegalAddress,
         format("write to constant memory at address 0x%llx", ull(address)));
  }
  const uint64_t offset = address - allocation->begin;
  uint8_t *host = allocation->host + offset;
  count(*allocation, offset, bytes, flags);
  if (warp.cta->checker && !(flags & kNoRecord)) {
    checkGlobal(warp, in, lane, *allocation, offset, bytes, flags, host, data);
  }
  return host;
}

uint8_t *inLocal(Warp &warp, const Instr &in, uint32_t lane, uint64_t offset, uint32_t bytes,
                 uint32_t flags) {
  const uint32_t size = warp.program->local_bytes;
  if (offset > size || bytes > size - offset) {
    fail(warp, in, lane, FaultCode::IllegalAddress,
         format("out-of-bounds local %s of %u bytes at offset %llu: the thread has %u bytes", verb(flags),
                bytes, ull(offset), size));
  }
  return warp.local.data() + size_t(lane) * size + offset;
}

uint8_t *inParams(Warp &warp, const Instr &in, uint32_t lane, uint64_t offset, uint32_t bytes,
                  uint32_t flags) {
  auto &params = warp.cta->launch.params;
  if ((flags & kWrite) || offset > params.size() || bytes > params.size() - offset) {
    fail(warp, in, lane, FaultCode::IllegalAddress,
         format("%s of %u bytes at offset %llu of the kernel's %zu parameter bytes", verb(flags), bytes,
                ull(offset), params.size()));
  }
  return params.data() + offset;
}

} // namespace

void laneAddresses(const Warp &warp, const Instr &in, uint64_t *to, Ref Instr::*base) {
  const Ref ref = in.*base;
  const auto offset = static_cast<uint64_t>(in.imm);
  if (in.flags & kShortAddress) {
    const uint32_t *from = warp.src<uint32_t>(ref);
    SMELT_EACH_LANE
    for (uint32_t i = 0; i < kWarpSize; ++i) {
      to[i] = from[i] + offset;
    }
  } else {
    const uint64_t *from = warp.src<uint64_t>(ref);
    SMELT_EACH_LANE
    for (uint32_t i = 0; i < kWarpSize; ++i) {
      to[i] = from[i] + offset;
    }
  }
}

uint8_t *resolveRange(Warp &warp, const Instr &in, uint32_t lane, Space space, uint64_t address,
                      uint32_t bytes, uint32_t align, uint32_t flags, const uint8_t *data) {
  if (address & (align - 1)) {
    misaligned(warp, in, lane, address, bytes, align, flags);
  }
  const uint64_t offset = address & ((uint64_t(1) << kWindowShift) - 1), window = address >> kWindowShift;
  switch (space) {
  case Space::Shared:
    // Shared addresses may be generic ones cut to 32 bits, or whole ones where a 64-bit register is used.
    return inShared(warp, in, lane, window == kSharedWindow ? offset : address, bytes, flags, data);
  case Space::Local:
    return inLocal(warp, in, lane, window == kLocalWindow ? offset : address, bytes, flags);
  case Space::Param:
    return inParams(warp, in, lane, window == kParamWindow ? offset : address, bytes, flags);
  case Space::Global:
  case Space::Const:
    return inGlobal(warp, in, lane, address, bytes, flags, data);
  case Space::Generic:
    break;
  }
  return window == kSharedWindow  ? inShared(warp, in, lane, offset, bytes, flags, data)
         : window == kLocalWindow ? inLocal(warp, in, lane, offset, bytes, flags)
         : window == kParamWindow ? inParams(warp, in, lane, offset, bytes, flags)
                                  : inGlobal(warp, in, lane, address, bytes, flags, data);
}

namespace {

/// The range that lanes most likely access: shared memory, or the allocation accessed last.
struct Window {
  uint64_t begin = 0, bytes = 0;
  uint8_t *host = nullptr;
};

Window likelyWindow(const Warp &warp, Space space, uint32_t flags) {
  if (space == Space::Shared) {
    return {0, warp.cta->shared_bytes, warp.cta->shared};
  }
  const Allocation *recent = space == Space::Global ? warp.recent : nullptr;
  return recent && !(recent->constant && (flags & kWrite))
             ? Window{recent->begin, recent->bytes, recent->host}
             : Window();
}

/// Host pointers of all lanes if every access lies well inside one window; false leaves the case to the slow
/// path.
bool resolveInside(const Window &window, uint32_t lanes, const uint64_t *addresses, uint32_t bytes,
                   uint32_t align, uint8_t **to) {
  if (window.bytes < bytes) {
    return false;
  }
  uint32_t wrong = 0;
  const uint64_t last = window.bytes - bytes;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint64_t offset = addresses[lane] - window.begin;
    wrong |= uint32_t(offset > last || (addresses[lane] & (align - 1)) != 0) << lane;
    to[lane] = window.host + offset;
  }
  return !(wrong & lanes);
}

} // namespace

namespace {

/// The lanes whose address no lower lane has: a GPU fetches it once for all.
uint32_t firstLanes(uint32_t lanes, const uint64_t *addresses) {
  uint32_t first = 0;
  eachLane(lanes, [&](uint32_t lane) {
    bool seen = false;
    eachLane(first, [&](uint32_t other) { seen |= addresses[other] == addresses[lane]; });
    first |= uint32_t(!seen) << lane;
  });
  return first;
}

} // namespace

void resolve(Warp &warp, const Instr &in, uint32_t lanes, Space space, const uint64_t *addresses,
             uint32_t bytes, uint32_t align, uint32_t flags, uint8_t **to, const uint8_t *const *data) {
  Cta &cta = *warp.cta;
  const Window window = likelyWindow(warp, space, flags);
  const bool counting = space != Space::Shared && deviceMemory().counting;
  if (counting || !resolveInside(window, lanes, addresses, bytes, align, to)) {
    const uint32_t counted = counting ? firstLanes(lanes, addresses) : lanes;
    eachLane(lanes, [&](uint32_t lane) {
      to[lane] = resolveRange(warp, in, lane, space, addresses[lane], bytes, align,
                              flags | (counted >> lane & 1 ? 0 : kNoCount), data ? data[lane] : nullptr);
    });
    return;
  }
  if (!cta.checker || (flags & kNoRecord)) {
    return;
  }
  eachLane(lanes, [&](uint32_t lane) {
    const uint64_t offset = addresses[lane] - window.begin;
    const uint8_t *stored = data ? data[lane] : nullptr;
    if (space == Space::Shared) {
      cta.checker->access(warp, in, lane, static_cast<uint32_t>(offset), bytes, flags, to[lane], stored);
    } else {
      checkGlobal(warp, in, lane, *warp.recent, offset, bytes, flags, to[lane], stored);
    }
  });
}

} // namespace smelt::emu
