#include "compiler/Codegen/CUDA/Emitter.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace smelt::codegen::cuda {

namespace {
// What shfl.sync takes for groups of all 32 lanes: source lanes up to 31, no segments; `up` stops at 0.
constexpr int64_t WHOLE_WARP = 0x1f, WHOLE_WARP_UP = 0;
constexpr double LOG2_E = 1.4426950408889634;
} // namespace

Value Emitter::c(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
Value Emitter::c64(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 64); }
Value Emitter::flag(bool value) { return arith::ConstantIntOp::create(builder, loc, value, 1); }
Value Emitter::constantLike(Value like, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, like.getType(), value);
}
Value Emitter::add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
Value Emitter::sub(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
Value Emitter::mul(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
Value Emitter::div(Value a, Value b) { return arith::DivUIOp::create(builder, loc, a, b); }
Value Emitter::rem(Value a, Value b) { return arith::RemUIOp::create(builder, loc, a, b); }
Value Emitter::min(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
Value Emitter::max(Value a, Value b) { return arith::MaxSIOp::create(builder, loc, a, b); }
Value Emitter::andi(Value a, Value b) { return arith::AndIOp::create(builder, loc, a, b); }
Value Emitter::ori(Value a, Value b) { return arith::OrIOp::create(builder, loc, a, b); }
Value Emitter::xori(Value a, Value b) { return arith::XOrIOp::create(builder, loc, a, b); }
Value Emitter::shl(Value a, Value b) { return arith::ShLIOp::create(builder, loc, a, b); }
Value Emitter::shr(Value a, Value b) { return arith::ShRUIOp::create(builder, loc, a, b); }
Value Emitter::less(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b);
}
Value Emitter::lessEqual(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, a, b);
}
Value Emitter::lessUnsigned(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, a, b);
}
Value Emitter::equal(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b);
}
Value Emitter::notEqual(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, a, b);
}
Value Emitter::no(Value a) { return xori(a, flag(true)); }
Value Emitter::select(Value cond, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, cond, a, b);
}
Value Emitter::widen(Value value) { return arith::ExtSIOp::create(builder, loc, i64(), value); }
Value Emitter::widenUnsigned(Value value) { return arith::ExtUIOp::create(builder, loc, i64(), value); }
Value Emitter::mulHigh(Value a, Value b) {
  return arith::MulUIExtendedOp::create(builder, loc, a, b).getHigh();
}
Value Emitter::narrow(Value value) { return arith::TruncIOp::create(builder, loc, i32(), value); }

Value Emitter::f(double value) {
  return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(static_cast<float>(value)));
}
Value Emitter::addf(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b); }
Value Emitter::subf(Value a, Value b) { return arith::SubFOp::create(builder, loc, a, b); }
Value Emitter::mulf(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
Value Emitter::maxf(Value a, Value b) { return arith::MaxNumFOp::create(builder, loc, a, b); }
Value Emitter::minf(Value a, Value b) { return arith::MinNumFOp::create(builder, loc, a, b); }
Value Emitter::negf(Value a) { return arith::NegFOp::create(builder, loc, a); }
Value Emitter::fma(Value a, Value b, Value acc) { return LLVM::FMAOp::create(builder, loc, a, b, acc); }
Value Emitter::greater(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, a, b);
}
Value Emitter::equalf(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, a, b);
}
Value Emitter::toFloat(Value value) { return arith::SIToFPOp::create(builder, loc, f32(), value); }
Value Emitter::bits(Value value) { return arith::BitcastOp::create(builder, loc, i32(), value); }
Value Emitter::fromBits(Value value) { return arith::BitcastOp::create(builder, loc, f32(), value); }

Value Emitter::d(double value) {
  return arith::ConstantOp::create(builder, loc, builder.getF64FloatAttr(value));
}
Value Emitter::toDouble(Value value) {
  return arith::ExtFOp::create(builder, loc, builder.getF64Type(), value);
}
Value Emitter::floor(Value value) { return LLVM::FFloorOp::create(builder, loc, value); }
Value Emitter::toUnsigned64(Value value) { return arith::FPToUIOp::create(builder, loc, i64(), value); }
Value Emitter::doubleFromBits(Value value) {
  return arith::BitcastOp::create(builder, loc, builder.getF64Type(), value);
}

Value Emitter::intrinsic(StringRef name, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(builder, loc, result, builder.getStringAttr(name), operands)
      .getResult(0);
}
Value Emitter::exp2(Value a) { return intrinsic("llvm.nvvm.ex2.approx.ftz.f", f32(), a); }
Value Emitter::rcp(Value a) { return intrinsic("llvm.nvvm.rcp.approx.ftz.f", f32(), a); }
Value Emitter::rsqrt(Value a) { return intrinsic("llvm.nvvm.rsqrt.approx.ftz.f", f32(), a); }
Value Emitter::exp(Value a) { return exp2(mulf(a, f(LOG2_E))); }
Value Emitter::sigmoid(Value a) { return rcp(addf(f(1), exp2(mulf(a, f(-LOG2_E))))); }
Value Emitter::silu(Value a) { return mulf(a, sigmoid(a)); }

Value Emitter::low(Value word) { return fromBits(shl(word, 16)); }
Value Emitter::high(Value word) { return fromBits(andi(word, -65536)); }
Value Emitter::packBf16(Value lowF32, Value highF32) {
  // The intrinsic puts its first operand in the high half.
  Value pair = intrinsic("llvm.nvvm.ff2bf16x2.rn", vec(bf16(), 2), {highF32, lowF32});
  return LLVM::BitcastOp::create(builder, loc, i32(), pair);
}
Value Emitter::toBf16(Value value) { return arith::TruncFOp::create(builder, loc, bf16(), value); }
Value Emitter::fromBf16(Value value) { return arith::ExtFOp::create(builder, loc, f32(), value); }

Value Emitter::element(Value vector, int64_t index) {
  return LLVM::ExtractElementOp::create(builder, loc, vector, c(index));
}
Value Emitter::vectorOf(ValueRange elements) {
  Value vector = LLVM::UndefOp::create(builder, loc, vec(elements.front().getType(), elements.size()));
  for (auto [i, value] : llvm::enumerate(elements)) {
    vector = LLVM::InsertElementOp::create(builder, loc, vector, value, c(static_cast<int64_t>(i)));
  }
  return vector;
}

Value Emitter::at(Value base, Type element, Value index) {
  return LLVM::GEPOp::create(builder, loc, base.getType(), element, base, ArrayRef<LLVM::GEPArg>{index});
}
Value Emitter::row(Value base, Type element, Value row, int64_t stride) {
  return at(base, element, mul(row.getType().isInteger(64) ? row : widen(row), stride));
}
Value Emitter::load(Type type, Value address, unsigned alignment) {
  return LLVM::LoadOp::create(builder, loc, type, address, alignment);
}
Value Emitter::loadReadOnly(Type type, Value address, unsigned alignment) {
  return LLVM::LoadOp::create(builder, loc, type, address, alignment, /*isVolatile=*/false,
                              /*isNonTemporal=*/false, /*isInvariant=*/true);
}
void Emitter::store(Value value, Value address, unsigned alignment) {
  LLVM::StoreOp::create(builder, loc, value, address, alignment);
}
Value Emitter::readBf16(Value base, Value index) {
  return fromBf16(loadReadOnly(bf16(), at(base, bf16(), index), 2));
}

Values Emitter::asmPtx(StringRef text, StringRef constraints, ValueRange operands, ArrayRef<Type> results) {
  Type type; // null: none
  if (results.size() == 1) {
    type = results.front();
  } else if (!results.empty()) {
    type = LLVM::LLVMStructType::getLiteral(builder.getContext(), results);
  }
  auto dialect = LLVM::AsmDialectAttr::get(builder.getContext(), LLVM::AsmDialect::AD_ATT);
  auto op = LLVM::InlineAsmOp::create(builder, loc, type, operands, text, constraints,
                                      /*has_side_effects=*/true, /*is_align_stack=*/false,
                                      LLVM::TailCallKind::None, dialect, /*operand_attrs=*/ArrayAttr());
  Values values;
  if (results.size() == 1) {
    values.push_back(op.getRes());
  }
  for (size_t i = 0; results.size() > 1 && i < results.size(); ++i) {
    values.push_back(LLVM::ExtractValueOp::create(builder, loc, op.getRes(), static_cast<int64_t>(i)));
  }
  return values;
}

Values Emitter::stream(Value address, int64_t byteOffset) {
  std::string load =
      "ld.global.nc.L1::no_allocate.v4.b32 {$0, $1, $2, $3}, [$4+" + std::to_string(byteOffset) + "];";
  return asmPtx(load, "=r,=r,=r,=r,l", address, {i32(), i32(), i32(), i32()});
}
Values Emitter::streamIf(Value predicate, Value address, int64_t byteOffset) {
  std::string load = "mov.b32 $0, 0;\n\tmov.b32 $1, 0;\n\tmov.b32 $2, 0;\n\tmov.b32 $3, 0;\n\t"
                     "@$5 ld.global.nc.L1::no_allocate.v4.b32 {$0, $1, $2, $3}, [$4+" +
                     std::to_string(byteOffset) + "];";
  return asmPtx(load, "=&r,=&r,=&r,=&r,l,b", {address, predicate}, {i32(), i32(), i32(), i32()});
}

Value Emitter::thread() { return NVVM::ThreadIdXOp::create(builder, loc, i32()); }
Value Emitter::block(int dimension) {
  switch (dimension) {
  case 0:
    return NVVM::BlockIdXOp::create(builder, loc, i32());
  case 1:
    return NVVM::BlockIdYOp::create(builder, loc, i32());
  default:
    return NVVM::BlockIdZOp::create(builder, loc, i32());
  }
}
Value Emitter::blocks(int dimension) {
  switch (dimension) {
  case 0:
    return NVVM::GridDimXOp::create(builder, loc, i32());
  case 1:
    return NVVM::GridDimYOp::create(builder, loc, i32());
  default:
    return NVVM::GridDimZOp::create(builder, loc, i32());
  }
}
void Emitter::barrier() { NVVM::Barrier0Op::create(builder, loc); }
void Emitter::warpBarrier() { NVVM::SyncWarpOp::create(builder, loc, c(-1)); }

Value Emitter::shuffleXor(Value value, int64_t laneMask) {
  return NVVM::ShflOp::create(builder, loc, value.getType(), c(-1), value, c(laneMask), c(WHOLE_WARP),
                              NVVM::ShflKind::bfly, UnitAttr());
}
Value Emitter::shuffleFrom(Value value, Value lane) {
  return NVVM::ShflOp::create(builder, loc, value.getType(), c(-1), value, lane, c(WHOLE_WARP),
                              NVVM::ShflKind::idx, UnitAttr());
}
Value Emitter::shuffleDown(Value value, int64_t delta) {
  return NVVM::ShflOp::create(builder, loc, value.getType(), c(-1), value, c(delta), c(WHOLE_WARP),
                              NVVM::ShflKind::down, UnitAttr());
}
Value Emitter::shuffleUp(Value value, int64_t delta) {
  return NVVM::ShflOp::create(builder, loc, value.getType(), c(-1), value, c(delta), c(WHOLE_WARP_UP),
                              NVVM::ShflKind::up, UnitAttr());
}
Value Emitter::warpSum(Value value, int64_t lanes, int64_t stride) {
  bool floating = isa<FloatType>(value.getType());
  for (int64_t mask = lanes / 2; mask > 0; mask /= 2) {
    Value other = shuffleXor(value, mask * stride);
    value = floating ? addf(value, other) : add(value, other);
  }
  return value;
}
Value Emitter::warpSum64(Value value) {
  for (int64_t mask = WARP / 2; mask > 0; mask /= 2) {
    Value low = shuffleXor(narrow(value), mask), high = shuffleXor(narrow(shr(value, 32)), mask);
    value = add(value, ori(widenUnsigned(low), shl(widenUnsigned(high), 32)));
  }
  return value;
}
Value Emitter::warpMax(Value value, int64_t lanes, int64_t stride) {
  bool floating = isa<FloatType>(value.getType());
  for (int64_t mask = lanes / 2; mask > 0; mask /= 2) {
    Value other = shuffleXor(value, mask * stride);
    value = floating ? maxf(value, other) : max(value, other);
  }
  return value;
}
Value Emitter::warpMaxUnsigned(Value value) {
  return NVVM::ReduxOp::create(builder, loc, i32(), value, NVVM::ReduxKind::UMAX, c(-1));
}
Value Emitter::warpMinUnsigned(Value value) {
  return NVVM::ReduxOp::create(builder, loc, i32(), value, NVVM::ReduxKind::UMIN, c(-1));
}
Value Emitter::ballot(Value predicate) {
  return NVVM::VoteSyncOp::create(builder, loc, i32(), c(-1), predicate, NVVM::VoteSyncKind::ballot);
}
Value Emitter::popCount(Value word) { return LLVM::CtPopOp::create(builder, loc, word); }

void Emitter::deviceFence() { LLVM::FenceOp::create(builder, loc, LLVM::AtomicOrdering::acq_rel, "device"); }
Value Emitter::atomicAdd(Value address, Value increment) {
  return LLVM::AtomicRMWOp::create(builder, loc, LLVM::AtomicBinOp::add, address, increment,
                                   LLVM::AtomicOrdering::monotonic, "device");
}
Value Emitter::atomicAddShared(Value address, Value increment) {
  return LLVM::AtomicRMWOp::create(builder, loc, LLVM::AtomicBinOp::add, address, increment,
                                   LLVM::AtomicOrdering::monotonic, "block");
}

Value Emitter::lastToArrive(Value ticket, Value count, Value flag) {
  barrier(); // every thread's writes come before the release below
  when(equal(thread(), 0), [&] {
    deviceFence();
    Value old = atomicAdd(ticket, c(1));
    Value last = equal(old, sub(count, 1));
    when(last, [&] { store(c(0), ticket, 4); });
    deviceFence();
    store(select(last, c(1), c(0)), flag, 4);
  });
  barrier();
  return notEqual(load(i32(), flag, 4), 0);
}

Values Emitter::loop(Value begin, Value end, Value step, ValueRange init, const LoopBody &body) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, step, init,
                                 [&](OpBuilder &, Location, Value iv, ValueRange carried) {
                                   scf::YieldOp::create(builder, loc, body(iv, carried));
                                 });
  return Values(loop.getResults());
}
void Emitter::loop(Value begin, Value end, Value step, const std::function<void(Value)> &body) {
  loop(begin, end, step, {}, [&](Value iv, ValueRange) {
    body(iv);
    return Values();
  });
}
void Emitter::when(Value cond, const std::function<void()> &body) {
  scf::IfOp::create(builder, loc, cond, [&](OpBuilder &, Location) {
    body();
    scf::YieldOp::create(builder, loc);
  });
}
Values Emitter::choose(Value cond, const std::function<Values()> &yes, const std::function<Values()> &no) {
  auto op = scf::IfOp::create(
      builder, loc, cond, [&](OpBuilder &, Location) { scf::YieldOp::create(builder, loc, yes()); },
      [&](OpBuilder &, Location) { scf::YieldOp::create(builder, loc, no()); });
  return Values(op.getResults());
}

} // namespace smelt::codegen::cuda
