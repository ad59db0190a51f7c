// wgmma: each warp of the warpgroup computes its 16 rows from operands in shared memory. A product is done as
// late as it may be, at the wait: results read before, or operands overwritten before, show.
#include "tests/support/cuda/sim/Access.h"
#include "tests/support/cuda/sim/Async.h"
#include "tests/support/cuda/sim/Fragments.h"
#include "tests/support/cuda/sim/Handlers.h"

#include <cstring>

namespace smelt::emu {
namespace {

/// A matrix descriptor: addresses and offsets are stored in units of 16 bytes.
struct Descriptor {
  uint64_t start, leading, stride;
  uint32_t swizzle; ///< 0 none, 1: 128 bytes, 2: 64, 3: 32
  explicit Descriptor(uint64_t bits)
      : start((bits & 0x3fff) << 4), leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4),
        swizzle(static_cast<uint32_t>(bits >> 62)) {}

  uint64_t width() const { return swizzle == 0 ? 16 : swizzle == 1 ? 128 : swizzle == 2 ? 64 : 32; }

  /// Shared address of the 16 bytes that hold element `major` (row of A or column of B), byte `minor`
  /// (multiple of 16) of its run along K; or with `transposed` element k = `major`, byte `minor` of its run
  /// along M or N.
  uint64_t address(uint64_t major, uint64_t minor, bool transposed) const {
    const uint64_t pitch = width();
    uint64_t at = start;
    if (!transposed) {
      at += major / 8 * stride + major % 8 * pitch + (swizzle ? minor : minor / 16 * leading);
    } else if (swizzle == 0) {
      at += minor / 16 * stride + major % 8 * 16 + major / 8 * leading;
    } else {
      at += minor % pitch + minor / pitch * leading + major % 8 * pitch + major / 8 * stride;
    }
    // The address bits above the row of 8 units pick the unit within it.
    const uint64_t mask = pitch / 16 - 1;
    return at ^ (at >> 7 & mask) << 4;
  }
};

/// What x, y, z hold: Element, columns N, and flags.
enum Flags : uint32_t { kRegisterA = 1, kTransposeA = 2, kTransposeB = 4, kNegateA = 8, kNegateB = 16 };

/// Reads `count` rows (or columns) of an operand, `depth` elements each, into to[major][k].
void readOperand(Warp &warp, const Instr &in, const Descriptor &from, bool transposed, Element kind,
                 uint32_t first, uint32_t count, uint32_t depth, bool negate, float *to) {
  const uint32_t element = kind == Element::Tf32 ? 4 : 2, per = 16 / element;
  const auto unit = [&](uint64_t major, uint64_t minor, uint8_t *data) {
    const uint64_t address = from.address(major, minor, transposed);
    std::memcpy(data, resolveRange(warp, in, 0, Space::Shared, address, 16, 16, kAsyncProxy), 16);
  };
  uint8_t data[16];
  const auto value = [&](uint32_t i) {
    uint32_t bits = 0;
    std::memcpy(&bits, data + i * element, element);
    const float v = elementToFloat(kind, bits);
    return negate ? -v : v;
  };
  if (!transposed) {
    for (uint32_t row = 0; row < count; ++row) {
      for (uint32_t k = 0; k < depth; k += per) {
        unit(first + row, k * element, data);
        for (uint32_t i = 0; i < per; ++i) {
          to[row * depth + k + i] = value(i);
        }
      }
    }
    return;
  }
  for (uint32_t k = 0; k < depth; ++k) {
    for (uint32_t row = 0; row < count; row += per) {
      unit(k, (first + row) * element, data);
      for (uint32_t i = 0; i < per; ++i) {
        to[(row + i) * depth + k] = value(i);
      }
    }
  }
}

void execute(Warp &warp, const PendingWgmma &pending) {
  const Instr &in = *pending.in;
  const auto kind = static_cast<Element>(in.x);
  const uint32_t columns = in.y, depth = kind == Element::Tf32 ? 8 : 16, row0 = warp.index % 4 * 16;
  const Ref *refs = warp.program->lists.data() + in.list;
  float a[16 * 16], b[256 * 16], bt[16 * 256], c[16 * 256];
  if (in.z & kRegisterA) {
    gatherA(warp, refs + columns / 2, kind, depth, a);
    for (uint32_t i = 0; in.z & kNegateA && i < 16 * depth; ++i) {
      a[i] = -a[i];
    }
  } else {
    readOperand(warp, in, Descriptor(pending.descriptor_a), in.z & kTransposeA, kind, row0, 16, depth,
                in.z & kNegateA, a);
  }
  readOperand(warp, in, Descriptor(pending.descriptor_b), in.z & kTransposeB, kind, 0, columns, depth,
              in.z & kNegateB, b);
  for (uint32_t k = 0; k < depth; ++k) {
    for (uint32_t n = 0; n < columns; ++n) {
      bt[k * columns + n] = b[n * depth + k];
    }
  }
  const auto at = [&](uint32_t lane, uint32_t r) -> float & {
    return c[(lane / 4 + 8 * (r >> 1 & 1)) * columns + r / 4 * 8 + lane % 4 * 2 + (r & 1)];
  };
  for (uint32_t r = 0; r < columns / 2; ++r) {
    const float *values = warp.src<float>(refs[r]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      at(lane, r) = pending.accumulate ? values[lane] : 0.0f;
    }
  }
  multiplyAdd(a, bt, c, 16, columns, depth);
  for (uint32_t r = 0; r < columns / 2; ++r) {
    float *values = warp.dst<float>(refs[r]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      values[lane] = at(lane, r);
    }
  }
}

uint64_t uniform(const Warp &warp, const Instr &in, Ref ref) {
  const uint64_t *values = warp.src<uint64_t>(ref);
  for (uint32_t lane = 1; lane < kWarpSize; ++lane) {
    if (values[lane] != values[0]) {
      fail(warp, in, lane, FaultCode::LaunchFailed, "a wgmma descriptor differs between the lanes of a warp");
    }
  }
  if (values[0] >> 49 & 7) {
    fail(warp, in, 0, FaultCode::LaunchFailed, "wgmma descriptors with a base offset are not emulated");
  }
  return values[0];
}

/// a, b: descriptors. c: predicate, accumulate if true.
Step issue(Warp &warp, const Instr &in, uint32_t lanes) {
  if (lanes != ~0u || warp.index / 4 * 4 + 4 > warp.cta->warps.size()) {
    fail(warp, in, firstLane(lanes), FaultCode::LaunchFailed,
         "wgmma needs four whole warps, the first a multiple of four");
  }
  if (!warp.wgmma_fenced) {
    fail(warp, in, 0, FaultCode::LaunchFailed, "wgmma.mma_async without wgmma.fence before it");
  }
  const uint32_t accumulate = warp.predicate(in.c);
  if (accumulate != 0 && accumulate != ~0u) {
    fail(warp, in, 0, FaultCode::LaunchFailed, "scale-d of wgmma differs between the lanes of a warp");
  }
  warp.wgmmas.push_back({&in, warp.wgmma_groups, in.z & kRegisterA ? 0 : uniform(warp, in, in.a),
                         uniform(warp, in, in.b), accumulate != 0});
  return Step::Next;
}

Step fence(Warp &warp, const Instr &, uint32_t) {
  warp.wgmma_fenced = true;
  return Step::Next;
}

Step commit(Warp &warp, const Instr &, uint32_t) {
  ++warp.wgmma_groups;
  return Step::Next;
}

/// x: groups that may stay pending.
Step wait(Warp &warp, const Instr &in, uint32_t) {
  while (!warp.wgmmas.empty() &&
         int64_t(warp.wgmmas.front().group) <= int64_t(warp.wgmma_groups) - in.x - 1) {
    execute(warp, warp.wgmmas.front());
    warp.wgmmas.pop_front();
  }
  // The registers may be touched now; the next product needs a fence again.
  warp.wgmma_fenced = !warp.wgmmas.empty();
  return Step::Next;
}

Element takeElement(Decoding &d) {
  switch (d.takeType()) {
  case Type::BF16:
    return Element::Bf16;
  case Type::F16:
    return Element::F16;
  case Type::TF32:
    return Element::Tf32;
  default:
    d.fail("wgmma of this type is not emulated");
  }
}

void decodeProduct(Decoding &d, Instr &in) {
  const std::string shape(d.peek());
  uint32_t n = 0, k = 0;
  if (std::sscanf(shape.c_str(), "m64n%uk%u", &n, &k) != 2 || n == 0 || n % 8 || n > 256 || !d.take(shape)) {
    d.fail("this shape of wgmma is not emulated");
  }
  const Type result = d.takeType();
  const Element a = takeElement(d), b = takeElement(d);
  d.done();
  if (result != Type::F32 || a != b || k != (a == Element::Tf32 ? 8 : 16)) {
    d.fail("this combination of wgmma types is not emulated");
  }
  in.run = issue;
  in.x = static_cast<uint32_t>(a);
  in.y = n;
  if (d.list(in, d.operand(0), 4, true) != n / 2) {
    d.fail("the accumulators of wgmma are N/2 registers");
  }
  const bool registers = d.operand(1).kind == OperandKind::Vector;
  if (registers) {
    const uint32_t list = in.list;
    in.z |= kRegisterA;
    if (d.list(in, d.operand(1), 4, false) != 4) {
      d.fail("A of wgmma in registers is four of them");
    }
    in.list = list;
  } else {
    in.a = d.source(1, 8);
  }
  in.b = d.source(2, 8);
  in.c = d.predicateSource(3);
  const auto sign = [&](size_t i) {
    const int64_t value = d.integer(i);
    if (value != 1 && value != -1) {
      d.fail("the scale of an operand is 1 or -1");
    }
    return value < 0;
  };
  in.z |= (sign(4) ? kNegateA : 0) | (sign(5) ? kNegateB : 0);
  size_t at = 6;
  if (a != Element::Tf32) {
    in.z |= !registers && d.integer(at++) ? kTransposeA : 0;
    in.z |= d.integer(at++) ? kTransposeB : 0;
  }
  d.expectCount(at, at);
}

void decodeWgmma(Decoding &d, Instr &in) {
  const int kind = d.oneOf({"fence", "commit_group", "wait_group", "mma_async"});
  if (kind < 0 || !d.take("sync") || !d.take("aligned")) {
    d.fail("malformed wgmma");
  }
  if (d.layout.module.target != "sm_90a") {
    d.fail("wgmma needs .target sm_90a");
  }
  in.flags |= kAligned;
  if (kind == 3) {
    return decodeProduct(d, in);
  }
  d.done();
  in.run = kind == 0 ? fence : kind == 1 ? commit : wait;
  in.x = kind == 2 ? static_cast<uint32_t>(d.integer(0)) : 0;
}

} // namespace

void addWgmma(DecodeTable &table) { table["wgmma"] = decodeWgmma; }

} // namespace smelt::emu
