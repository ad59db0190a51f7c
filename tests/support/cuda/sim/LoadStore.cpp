// ld, ldu, st in every space, width and vector form. Cache hints and .nc do not matter here.
#include "tests/support/cuda/sim/Access.h"
#include "tests/support/cuda/sim/Handlers.h"

#include <cstring>

namespace smelt::emu {
namespace {

/// x of a load or store; y is its bytes, z further AccessFlags.
enum Ordering : uint32_t { kWeak = 0, kRelaxed = 1, kOrdered = 2 };

template <class Memory, class Register>
void loadElements(Warp &warp, const Instr &in, uint32_t lanes, uint8_t *const *from) {
  const Ref *refs = warp.program->lists.data() + in.list;
  for (uint32_t e = 0; e < in.count; ++e) {
    Register *to = warp.dst<Register>(refs[e]);
    eachLane(lanes, [&](uint32_t lane) {
      Memory value;
      std::memcpy(&value, from[lane] + e * sizeof(Memory), sizeof(Memory));
      to[lane] = static_cast<Register>(value);
    });
  }
}

/// x: ordering. y: memory bytes of all elements.
template <class Memory, class Register> Step load(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t addresses[kWarpSize];
  uint8_t *from[kWarpSize];
  laneAddresses(warp, in, addresses);
  const bool checked = warp.cta->checker != nullptr;
  resolve(warp, in, lanes, in.space, addresses, in.y, in.y, in.x ? uint32_t(kAtomic) : in.z, from);
  loadElements<Memory, Register>(warp, in, lanes, from);
  if (!in.x) {
    return Step::Next;
  }
  if (checked) {
    eachLane(lanes,
             [&](uint32_t lane) { atomicGlobal(warp, addresses[lane], false, in.x == kOrdered, false); });
  }
  return Step::Yield; // somebody may be polled
}

/// ld.param of a kernel's arguments: one value for all lanes.
template <class Memory, class Register> Step loadParam(Warp &warp, const Instr &in, uint32_t lanes) {
  const auto &params = warp.cta->launch.params;
  const auto offset = static_cast<uint64_t>(in.imm);
  if (offset + in.y > params.size()) {
    fail(warp, in, firstLane(lanes), FaultCode::IllegalAddress,
         format("read of %u bytes at offset %llu of the kernel's %zu parameter bytes", in.y,
                static_cast<unsigned long long>(offset), params.size()));
  }
  const Ref *refs = warp.program->lists.data() + in.list;
  for (uint32_t e = 0; e < in.count; ++e) {
    Memory value;
    std::memcpy(&value, params.data() + offset + e * sizeof(Memory), sizeof(Memory));
    storeLanes(warp.dst<Register>(refs[e]), lanes, [&](uint32_t) { return static_cast<Register>(value); });
  }
  return Step::Next;
}

template <class Memory, class Register> Step store(Warp &warp, const Instr &in, uint32_t lanes) {
  uint64_t addresses[kWarpSize];
  uint8_t values[kWarpSize][32];
  laneAddresses(warp, in, addresses);
  const Ref *refs = warp.program->lists.data() + in.list;
  for (uint32_t e = 0; e < in.count; ++e) {
    const Register *from = warp.src<Register>(refs[e]);
    eachLane(lanes, [&](uint32_t lane) {
      const auto value = static_cast<Memory>(from[lane]);
      std::memcpy(values[lane] + e * sizeof(Memory), &value, sizeof(Memory));
    });
  }
  const uint32_t flags = kWrite | (in.x ? kAtomic : 0);
  if (!warp.cta->checker) {
    uint8_t *to[kWarpSize];
    resolve(warp, in, lanes, in.space, addresses, in.y, in.y, flags, to);
    eachLane(lanes, [&](uint32_t lane) { std::memcpy(to[lane], values[lane], in.y); });
    ++warp.cta->progress;
    return Step::Next;
  }
  // Lane by lane: of lanes that store to one place the last wins, and the checker sees what the others left.
  eachLane(lanes, [&](uint32_t lane) {
    uint8_t *to = resolveRange(warp, in, lane, in.space, addresses[lane], in.y, in.y, flags, values[lane]);
    std::memcpy(to, values[lane], in.y);
    if (in.x) {
      atomicGlobal(warp, addresses[lane], in.x == kOrdered, false, true);
    }
  });
  ++warp.cta->progress;
  return Step::Next;
}

template <bool Store, bool Params, class Memory, class Register> Handler one() {
  if constexpr (Store) {
    return store<Memory, Register>;
  } else {
    return Params ? loadParam<Memory, Register> : load<Memory, Register>;
  }
}

template <bool Store, bool Params, class Memory> Handler ofRegister(uint32_t width) {
  return width == 8   ? one<Store, Params, Memory, uint64_t>()
         : width == 4 ? one<Store, Params, Memory, uint32_t>()
                      : one<Store, Params, Memory, uint16_t>();
}

template <bool Store, bool Params> Handler ofMemory(Type type, uint32_t width) {
  const bool sign = isSigned(type);
  switch (bytesOf(type)) {
  case 1:
    return sign ? ofRegister<Store, Params, int8_t>(width) : ofRegister<Store, Params, uint8_t>(width);
  case 2:
    return sign ? ofRegister<Store, Params, int16_t>(width) : ofRegister<Store, Params, uint16_t>(width);
  case 4:
    return sign ? ofRegister<Store, Params, int32_t>(width) : ofRegister<Store, Params, uint32_t>(width);
  default:
    return ofRegister<Store, Params, uint64_t>(width);
  }
}

struct Form {
  uint32_t ordering = kWeak;
  Space space = Space::Generic;
  bool read_only = false;
  uint32_t elements = 1;
  Type type = Type::B32;
};

Form takeForm(Decoding &d) {
  Form form;
  for (bool typed = false; !typed;) {
    if (d.take("relaxed") || d.take("volatile") || d.take("mmio")) {
      form.ordering = kRelaxed;
    } else if (d.take("acquire") || d.take("release")) {
      form.ordering = kOrdered;
    } else if (d.take("global")) {
      form.space = Space::Global;
    } else if (d.take("shared") || d.take("shared::cta") || d.take("shared::cluster")) {
      form.space = Space::Shared;
    } else if (d.take("local")) {
      form.space = Space::Local;
    } else if (d.take("const")) {
      form.space = Space::Const;
    } else if (d.take("param") || d.take("param::entry")) {
      form.space = Space::Param;
    } else if (d.take("nc")) {
      form.read_only = true;
    } else if (d.take("v2")) {
      form.elements = 2;
    } else if (d.take("v4")) {
      form.elements = 4;
    } else if (d.take("v8")) {
      form.elements = 8;
    } else if (d.oneOf({"weak",
                        "cta",
                        "cluster",
                        "gpu",
                        "sys",
                        "ca",
                        "cg",
                        "cs",
                        "lu",
                        "cv",
                        "wb",
                        "wt",
                        "unified",
                        "L1::evict_normal",
                        "L1::evict_unchanged",
                        "L1::evict_first",
                        "L1::evict_last",
                        "L1::no_allocate",
                        "L2::64B",
                        "L2::128B",
                        "L2::256B",
                        "L2::evict_first",
                        "L2::evict_last",
                        "L2::evict_normal",
                        "L2::cache_hint"}) < 0) {
      form.type = d.takeType();
      typed = true;
    }
  }
  d.done();
  if (bytesOf(form.type) == 16) {
    d.fail("128-bit elements are not emulated");
  }
  return form;
}

template <bool Store> void decode(Decoding &d, Instr &in) {
  const Form form = takeForm(d);
  d.expectCount(2, 3); // the third is a cache policy
  const Operand &value = d.operand(Store ? 1 : 0);
  const Operand &first = value.kind == OperandKind::Vector && !value.parts.empty() ? value.parts[0] : value;
  uint32_t width = d.registerBytes(first);
  if (value.kind == OperandKind::Vector) {
    for (const Operand &part : value.parts) {
      width = std::max(width, d.registerBytes(part));
    }
  }
  width = width ? width : std::max(bytesOf(form.type), 2u);
  if (width < bytesOf(form.type)) {
    d.fail("a register is narrower than the type");
  }
  in.count = d.list(in, value, width, !Store);
  if (in.count != form.elements) {
    d.fail(format("%u elements for a vector of %u", in.count, form.elements));
  }
  d.address(in, Store ? 0 : 1);
  in.space = form.space;
  in.x = form.ordering;
  in.z = form.read_only ? kReadOnly : 0;
  in.y = bytesOf(form.type) * form.elements;
  const bool params =
      form.space == Space::Param && d.operand(Store ? 0 : 1).parts[0].kind == OperandKind::Param;
  if (in.y > 32 || (Store && form.space == Space::Param)) {
    d.fail("this form is not emulated");
  }
  in.run = params ? ofMemory<Store, true>(form.type, width) : ofMemory<Store, false>(form.type, width);
}

} // namespace

void addLoadStore(DecodeTable &table) {
  table["ld"] = table["ldu"] = decode<false>;
  table["st"] = decode<true>;
}

} // namespace smelt::emu
