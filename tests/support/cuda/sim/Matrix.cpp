// ldmatrix, stmatrix, movmatrix, mma.sync. Products are summed in f32 with k ascending; tensor cores differ
// in order and in what they cut off.
#include "tests/support/cuda/sim/Access.h"
#include "tests/support/cuda/sim/Fragments.h"
#include "tests/support/cuda/sim/Handlers.h"

#include <cstring>

namespace smelt::emu {

void multiplyAdd(const float *a, const float *b, float *c, uint32_t rows, uint32_t columns, uint32_t depth) {
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t k = 0; k < depth; ++k) {
      const float left = a[i * depth + k];
      SMELT_EACH_LANE
      for (uint32_t j = 0; j < columns; ++j) {
        c[i * columns + j] += left * b[k * columns + j];
      }
    }
  }
}

float elementToFloat(Element kind, uint32_t bits) {
  return kind == Element::Bf16  ? bf16ToFloat(static_cast<uint16_t>(bits))
         : kind == Element::F16 ? f16ToFloat(static_cast<uint16_t>(bits))
                                : bitsToFloat(bits & 0xffffe000u);
}

void gatherA(const Warp &warp, const Ref *refs, Element kind, uint32_t depth, float *a) {
  const uint32_t per = kind == Element::Tf32 ? 1 : 2, count = depth * 16 / (32 * per);
  for (uint32_t r = 0; r < count; ++r) {
    const uint32_t *values = warp.src<uint32_t>(refs[r]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint32_t row = lane / 4 + 8 * (r & 1), column = lane % 4 * per + 4 * per * (r >> 1);
      for (uint32_t h = 0; h < per; ++h) {
        a[row * depth + column + h] = elementToFloat(kind, values[lane] >> (16 * h));
      }
    }
  }
}

namespace {

void gatherB(const Warp &warp, const Ref *refs, Element kind, uint32_t depth, float *b) {
  const uint32_t per = kind == Element::Tf32 ? 1 : 2, count = depth * 8 / (32 * per);
  for (uint32_t r = 0; r < count; ++r) {
    const uint32_t *values = warp.src<uint32_t>(refs[r]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint32_t k = lane % 4 * per + 4 * per * r, column = lane / 4;
      for (uint32_t h = 0; h < per; ++h) {
        b[(k + h) * 8 + column] = elementToFloat(kind, values[lane] >> (16 * h));
      }
    }
  }
}

/// x: Element of A and B. y: depth. z: f16 accumulators. The lists of d, a, b, c follow each other.
Step mma(Warp &warp, const Instr &in, uint32_t lanes) {
  const Ref *refs = warp.program->lists.data() + in.list;
  const auto kind = static_cast<Element>(in.x);
  const uint32_t depth = in.y, accumulators = in.z ? 2 : 4;
  const Ref *d = refs, *a = refs + accumulators, *b = a + in.count, *c = b + in.count / 2;
  alignas(32) float left[16 * 16], right[16 * 8], sum[16 * 8];
  gatherA(warp, a, kind, depth, left);
  gatherB(warp, b, kind, depth, right);
  const auto position = [](uint32_t lane, uint32_t r) {
    return (lane / 4 + 8 * (r >> 1)) * 8 + lane % 4 * 2 + (r & 1);
  };
  for (uint32_t r = 0; r < 4; ++r) {
    const uint32_t *values = warp.src<uint32_t>(c[in.z ? r / 2 : r]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      sum[position(lane, r)] = in.z ? f16ToFloat(static_cast<uint16_t>(values[lane] >> (16 * (r & 1))))
                                    : bitsToFloat(values[lane]);
    }
  }
  multiplyAdd(left, right, sum, 16, 8, depth);
  for (uint32_t r = 0; r < accumulators; ++r) {
    uint32_t *to = warp.dst<uint32_t>(d[r]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      to[lane] = in.z ? floatToF16(sum[position(lane, 2 * r)]) |
                            uint32_t(floatToF16(sum[position(lane, 2 * r + 1)])) << 16
                      : floatToBits(sum[position(lane, r)]);
    }
  }
  return Step::Next;
}

void needFullWarp(const Warp &warp, const Instr &in, uint32_t lanes) {
  if (lanes != ~0u) {
    fail(warp, in, firstLane(lanes), FaultCode::LaunchFailed,
         format("a matrix instruction needs all 32 lanes, it has %08x", lanes));
  }
}

template <Handler Run> Step fullWarp(Warp &warp, const Instr &in, uint32_t lanes) {
  needFullWarp(warp, in, lanes);
  return Run(warp, in, lanes);
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
    d.fail("products of this type are not emulated");
  }
}

void decodeMma(Decoding &d, Instr &in) {
  if (!d.take("sync") || !d.take("aligned")) {
    d.fail("only mma.sync.aligned is emulated");
  }
  const int shape = d.oneOf({"m16n8k16", "m16n8k8", "m16n8k4"});
  if (shape < 0 || !d.take("row") || !d.take("col")) {
    d.fail("this shape of mma is not emulated");
  }
  const Type result = d.takeType();
  const Element a = takeElement(d), b = takeElement(d);
  const Type accumulator = d.takeType();
  d.done();
  const uint32_t depth = 16u >> shape;
  if (a != b || result != accumulator ||
      (result != Type::F32 && (result != Type::F16 || a != Element::F16)) ||
      (a == Element::Tf32 ? depth == 16 : depth == 4)) {
    d.fail("this combination of mma types is not emulated");
  }
  in.run = fullWarp<mma>;
  in.flags |= kAligned;
  in.x = static_cast<uint32_t>(a);
  in.y = depth;
  in.z = result == Type::F16;
  const uint32_t accumulators = in.z ? 2 : 4, registers = depth * 16 / (a == Element::Tf32 ? 32 : 64);
  const uint32_t nd = d.list(in, d.operand(0), 4, true);
  const uint32_t list = in.list;
  const uint32_t na = d.list(in, d.operand(1), 4, false), nb = d.list(in, d.operand(2), 4, false);
  const uint32_t nc = d.list(in, d.operand(3), 4, false);
  in.list = list;
  in.count = registers;
  if (nd != accumulators || nc != accumulators || na != registers || nb != registers / 2) {
    d.fail("an operand of mma has the wrong number of registers");
  }
}

/// x: matrices. y: transposed. The rows' addresses come from lanes 0-7, 8-15, ...
template <bool Store> Step moveMatrices(Warp &warp, const Instr &in, uint32_t) {
  uint64_t addresses[kWarpSize];
  laneAddresses(warp, in, addresses);
  const Ref *refs = warp.program->lists.data() + in.list;
  for (uint32_t m = 0; m < in.x; ++m) {
    uint16_t tile[8][8];
    uint32_t *values = const_cast<uint32_t *>(warp.src<uint32_t>(refs[m]));
    const auto at = [&](uint32_t lane, uint32_t h) -> uint16_t & {
      return in.y ? tile[lane % 4 * 2 + h][lane / 4] : tile[lane / 4][lane % 4 * 2 + h];
    };
    if (Store) {
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        at(lane, 0) = static_cast<uint16_t>(values[lane]);
        at(lane, 1) = static_cast<uint16_t>(values[lane] >> 16);
      }
    }
    for (uint32_t row = 0; row < 8; ++row) {
      const uint32_t lane = 8 * m + row;
      const auto *data = reinterpret_cast<const uint8_t *>(tile[row]);
      uint8_t *host = resolveRange(warp, in, lane, in.space, addresses[lane], 16, 16, Store ? kWrite : 0,
                                   Store ? data : nullptr);
      Store ? std::memcpy(host, tile[row], 16) : std::memcpy(tile[row], host, 16);
    }
    if (!Store) {
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        values[lane] = at(lane, 0) | uint32_t(at(lane, 1)) << 16;
      }
    }
  }
  warp.cta->progress += Store;
  return Step::Next;
}

template <bool Store> void decodeMatrices(Decoding &d, Instr &in) {
  if (!d.take("sync") || !d.take("aligned") || !d.take("m8n8")) {
    d.fail("only the m8n8 form is emulated");
  }
  const int count = d.oneOf({"x1", "x2", "x4"});
  in.y = d.take("trans");
  in.space = d.oneOf({"shared", "shared::cta"}) >= 0 ? Space::Shared : Space::Generic;
  if (count < 0 || d.takeType() != Type::B16) {
    d.fail("malformed ldmatrix or stmatrix");
  }
  d.done();
  in.run = fullWarp<moveMatrices<Store>>;
  in.flags |= kAligned;
  in.x = 1u << count;
  if (d.list(in, d.operand(Store ? 1 : 0), 4, true) != in.x) {
    d.fail("a register a matrix");
  }
  d.address(in, Store ? 0 : 1);
}

/// Transposes an 8x8 matrix of 16-bit elements across the warp.
Step moveMatrix(Warp &warp, const Instr &in, uint32_t) {
  const uint32_t *from = warp.src<uint32_t>(in.a);
  uint16_t tile[8][8];
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    for (uint32_t h = 0; h < 2; ++h) {
      tile[lane % 4 * 2 + h][lane / 4] = static_cast<uint16_t>(from[lane] >> (16 * h));
    }
  }
  uint32_t *to = warp.dst<uint32_t>(in.d);
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    to[lane] = tile[lane / 4][lane % 4 * 2] | uint32_t(tile[lane / 4][lane % 4 * 2 + 1]) << 16;
  }
  return Step::Next;
}

void decodeMovmatrix(Decoding &d, Instr &in) {
  if (!d.take("sync") || !d.take("aligned") || !d.take("m8n8") || !d.take("trans") ||
      d.takeType() != Type::B16) {
    d.fail("malformed movmatrix");
  }
  in.run = fullWarp<moveMatrix>;
  in.flags |= kAligned;
  operands(d, in, 4, 1);
}

} // namespace

void addMatrix(DecodeTable &table) {
  table["mma"] = decodeMma;
  table["ldmatrix"] = decodeMatrices<false>;
  table["stmatrix"] = decodeMatrices<true>;
  table["movmatrix"] = decodeMovmatrix;
}

} // namespace smelt::emu
