// mov, cvta, isspacep, mapa.
#include "tests/support/cuda/sim/DeviceMemory.h"
#include "tests/support/cuda/sim/Handlers.h"

namespace smelt::emu {

bool decodeClock(Decoding &d, Instr &in, const std::string &name, uint32_t bytes);

namespace {

template <class T> Step move(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a);
  storeLanes(warp.dst<T>(in.d), lanes, [&](uint32_t i) { return a[i]; });
  return Step::Next;
}

Step movePredicate(Warp &warp, const Instr &in, uint32_t lanes) {
  warp.setPredicate(in.d, warp.predicate(in.a), lanes);
  return Step::Next;
}

/// {a, b, ...} into one wider register; Part is the element.
template <class Whole, class Part> Step pack(Warp &warp, const Instr &in, uint32_t lanes) {
  const Ref *parts = warp.program->lists.data() + in.list;
  constexpr uint32_t kCount = sizeof(Whole) / sizeof(Part);
  const Part *from[kCount];
  for (uint32_t p = 0; p < kCount; ++p) {
    from[p] = warp.src<Part>(parts[p]);
  }
  storeLanes(warp.dst<Whole>(in.d), lanes, [&](uint32_t i) {
    Whole whole = 0;
    for (uint32_t p = 0; p < kCount; ++p) {
      whole |= static_cast<Whole>(static_cast<Whole>(from[p][i]) << (8 * sizeof(Part) * p));
    }
    return whole;
  });
  return Step::Next;
}

template <class Whole, class Part> Step unpack(Warp &warp, const Instr &in, uint32_t lanes) {
  const Ref *parts = warp.program->lists.data() + in.list;
  Whole whole[kWarpSize];
  std::copy_n(warp.src<Whole>(in.a), kWarpSize, whole);
  for (uint32_t p = 0; p < sizeof(Whole) / sizeof(Part); ++p) {
    storeLanes(warp.dst<Part>(parts[p]), lanes,
               [&](uint32_t i) { return static_cast<Part>(whole[i] >> (8 * sizeof(Part) * p)); });
  }
  return Step::Next;
}

Handler packHandler(uint32_t whole, uint32_t part, bool packing) {
  if (whole == 8 && part == 4) {
    return packing ? pack<uint64_t, uint32_t> : unpack<uint64_t, uint32_t>;
  }
  if (whole == 8 && part == 2) {
    return packing ? pack<uint64_t, uint16_t> : unpack<uint64_t, uint16_t>;
  }
  if (whole == 4 && part == 2) {
    return packing ? pack<uint32_t, uint16_t> : unpack<uint32_t, uint16_t>;
  }
  return nullptr;
}

void decodePacking(Decoding &d, Instr &in, uint32_t whole, bool packing) {
  const Operand &vector = d.operand(packing ? 1 : 0);
  const auto part = static_cast<uint32_t>(whole / vector.parts.size());
  in.run = packHandler(whole, part, packing);
  if (!in.run || part * vector.parts.size() != whole) {
    d.fail("this form of mov is not emulated");
  }
  in.count = d.list(in, vector, part, !packing);
  (packing ? in.d : in.a) = packing ? d.dest(0, whole) : d.source(1, whole);
}

/// Address of a parameter as mov sees it: cvta.param makes it generic.
void decodeMov(Decoding &d, Instr &in) {
  const Type type = d.takeType();
  d.done();
  d.expectCount(2, 2);
  if (type == Type::Pred) {
    in.run = movePredicate;
    in.d = d.predicateDest(d.operand(0));
    in.a = d.predicateSource(1);
    return;
  }
  const uint32_t bytes = bytesOf(type);
  if (d.operand(1).kind == OperandKind::Vector || d.operand(0).kind == OperandKind::Vector) {
    decodePacking(d, in, bytes, d.operand(1).kind == OperandKind::Vector);
    return;
  }
  if (d.operand(1).kind == OperandKind::Special && decodeClock(d, in, d.operand(1).name, bytes)) {
    return;
  }
  in.run = bytes == 8 ? move<uint64_t> : bytes == 4 ? move<uint32_t> : bytes == 2 ? move<uint16_t> : nullptr;
  if (!in.run) {
    d.fail("mov of this width is not emulated");
  }
  in.d = d.dest(0, bytes);
  in.a = d.source(1, bytes, type);
}

/// Between a window of generic addresses and a state space. imm is the window's tag.
template <class T> Step toGeneric(Warp &warp, const Instr &in, uint32_t lanes) {
  const T *a = warp.src<T>(in.a);
  storeLanes(warp.dst<T>(in.d), lanes,
             [&](uint32_t i) { return static_cast<T>(a[i] | static_cast<T>(in.imm)); });
  return Step::Next;
}

Step fromGeneric(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint64_t *a = warp.src<uint64_t>(in.a);
  storeLanes(warp.dst<uint64_t>(in.d), lanes, [&](uint32_t i) { return a[i] & 0xffffffffu; });
  return Step::Next;
}

void decodeCvta(Decoding &d, Instr &in) {
  const bool to = d.take("to");
  const int space = d.oneOf(
      {"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"});
  const Type type = d.takeType();
  d.done();
  if (space < 0 || bytesOf(type) != 8) {
    d.fail("this form of cvta is not emulated");
  }
  in.d = d.dest(0, 8);
  in.a = d.source(1, 8);
  const uint64_t window = space <= 1   ? 0
                          : space <= 4 ? kSharedWindow
                          : space == 5 ? kLocalWindow
                                       : kParamWindow;
  in.imm = static_cast<int64_t>(window << kWindowShift);
  in.run = window == 0 ? move<uint64_t> : to ? fromGeneric : toGeneric<uint64_t>;
}

Step isSpace(Warp &warp, const Instr &in, uint32_t lanes) {
  const uint64_t *a = warp.src<uint64_t>(in.a);
  uint32_t bits = 0;
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    const uint64_t window = a[i] >> kWindowShift;
    bits |= uint32_t(in.x ? window == in.x : window <= kDeviceWindow) << i;
  }
  warp.setPredicate(in.d, bits, lanes);
  return Step::Next;
}

void decodeIsspacep(Decoding &d, Instr &in) {
  const int space =
      d.oneOf({"global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"});
  d.done();
  if (space < 0) {
    d.fail("this form of isspacep is not emulated");
  }
  in.x = static_cast<uint32_t>(space == 0   ? 0
                               : space <= 3 ? kSharedWindow
                               : space == 4 ? kLocalWindow
                                            : kParamWindow);
  in.d = d.predicateDest(d.operand(0));
  in.a = d.source(1, 8);
  in.run = isSpace;
}

/// The one CTA of a cluster has rank 0: its own address.
void decodeMapa(Decoding &d, Instr &in) {
  d.ignore({"shared::cluster"});
  const uint32_t bytes = bytesOf(d.takeType());
  d.done();
  in.d = d.dest(0, bytes);
  in.a = d.source(1, bytes);
  in.run = bytes == 8 ? move<uint64_t> : move<uint32_t>;
}

} // namespace

void addMoves(DecodeTable &table) {
  table["mov"] = decodeMov;
  table["cvta"] = decodeCvta;
  table["isspacep"] = decodeIsspacep;
  table["mapa"] = decodeMapa;
}

} // namespace smelt::emu
