// rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh: the approximate forms are computed as well as the host can, so
// they differ from a GPU in the last bits.
#include "tests/support/cuda/sim/FloatOps.h"
#include "tests/support/cuda/sim/Handlers.h"
#include "tests/support/cuda/sim/Rounded.h"

namespace smelt::emu {

bool decodeHalf(Decoding &d, Instr &in, Type type, const char *op, bool relu, bool nan, bool saturate);

namespace {

template <class Op> void finish(Decoding &d, Instr &in, bool ftz) {
  const Type type = d.takeType();
  if (type != Type::F32 && type != Type::F64) {
    d.fail("this type is not emulated here");
  }
  in.run = type == Type::F64 ? unary<Op, double> : ftz ? unary<Ftz<Op>, float> : unary<Op, float>;
  operands(d, in, bytesOf(type), 1, type);
}

/// rcp and sqrt: approx, or rounded in one of four ways.
template <class Op> void decodeRounded(Decoding &d, Instr &in, RoundedOp op) {
  const int mode = d.take("approx") ? 0 : d.oneOf({"rn", "rz", "rm", "rp"});
  const bool ftz = d.take("ftz");
  if (mode <= 0) {
    return finish<Op>(d, in, ftz);
  }
  const Type type = d.takeType();
  in.run = roundedHandler(op, type == Type::F64);
  in.x = static_cast<uint32_t>(mode);
  in.y = ftz;
  operands(d, in, bytesOf(type), 1, type);
}

template <class Op> void decodeApprox(Decoding &d, Instr &in) {
  if (!d.take("approx")) {
    d.fail("expected .approx");
  }
  const bool ftz = d.take("ftz");
  Type type;
  if (parseType(d.peek(), type) && type != Type::F32 && type != Type::F64) {
    d.takeType();
    decodeHalf(d, in, type, d.statement.op[0].c_str(), false, false, false);
    return;
  }
  finish<Op>(d, in, ftz);
}

} // namespace

void addMath(DecodeTable &table) {
  table["rcp"] = [](Decoding &d, Instr &in) { decodeRounded<FRcp>(d, in, RoundedOp::Rcp); };
  table["sqrt"] = [](Decoding &d, Instr &in) { decodeRounded<FSqrt>(d, in, RoundedOp::Sqrt); };
  table["rsqrt"] = decodeApprox<FRsqrt>;
  table["sin"] = decodeApprox<FSin>;
  table["cos"] = decodeApprox<FCos>;
  table["lg2"] = decodeApprox<FLg2>;
  table["ex2"] = decodeApprox<FEx2>;
  table["tanh"] = decodeApprox<FTanh>;
}

} // namespace smelt::emu
