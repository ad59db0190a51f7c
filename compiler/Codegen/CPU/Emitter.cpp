#include "compiler/Codegen/CPU/Emitter.h"

#include "smelt/artifact.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

#include <cstddef>

using namespace mlir;

namespace smelt::codegen::cpu {

Type Emitter::ptr() { return LLVM::LLVMPointerType::get(builder.getContext()); }
Type Emitter::vec(Type element, int64_t lanes) { return VectorType::get({lanes}, element); }

Value Emitter::c(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 64); }
Value Emitter::c32(int32_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
Value Emitter::add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
Value Emitter::sub(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
Value Emitter::mul(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
Value Emitter::div(Value a, Value b) { return arith::DivUIOp::create(builder, loc, a, b); }
Value Emitter::rem(Value a, Value b) { return arith::RemUIOp::create(builder, loc, a, b); }
Value Emitter::min(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
Value Emitter::max(Value a, Value b) { return arith::MaxSIOp::create(builder, loc, a, b); }
Value Emitter::select(Value cond, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, cond, a, b);
}
Value Emitter::less(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b);
}
Value Emitter::lessEqual(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, a, b);
}
Value Emitter::equal(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b);
}
Value Emitter::notEqual(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, a, b);
}
Value Emitter::widen(Value value) { return arith::ExtSIOp::create(builder, loc, i64(), value); }
Value Emitter::narrow(Value value) { return arith::TruncIOp::create(builder, loc, i32(), value); }

Value Emitter::f(double value) {
  return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(static_cast<float>(value)));
}
Value Emitter::splat(Value scalar, int64_t lanes) {
  return vector::BroadcastOp::create(builder, loc, vec(scalar.getType(), lanes), scalar);
}
Value Emitter::addf(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b); }
Value Emitter::subf(Value a, Value b) { return arith::SubFOp::create(builder, loc, a, b); }
Value Emitter::mulf(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
Value Emitter::divf(Value a, Value b) { return arith::DivFOp::create(builder, loc, a, b); }
Value Emitter::maxf(Value a, Value b) { return arith::MaxNumFOp::create(builder, loc, a, b); }
Value Emitter::fma(Value a, Value b, Value acc) { return math::FmaOp::create(builder, loc, a, b, acc); }
Value Emitter::sqrt(Value a) { return math::SqrtOp::create(builder, loc, a); }
Value Emitter::greater(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, a, b);
}
Value Emitter::equalf(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, a, b);
}
Value Emitter::bitsToFloat(Value value) { return arith::BitcastOp::create(builder, loc, f32(), value); }
Value Emitter::toFloat(Value a) {
  if (getElementTypeOrSelf(a).isF32()) {
    return a;
  }
  // A bf16 is the upper half of the f32 of equal value.
  if (auto type = dyn_cast<VectorType>(a.getType())) {
    Value words = arith::ExtUIOp::create(builder, loc, type.clone(i32()), a);
    words = arith::ShLIOp::create(builder, loc, words, splat(c32(16), type.getNumElements()));
    return arith::BitcastOp::create(builder, loc, type.clone(f32()), words);
  }
  Value word = arith::ExtUIOp::create(builder, loc, i32(), a);
  return bitsToFloat(arith::ShLIOp::create(builder, loc, word, c32(16)));
}
Value Emitter::addPairs(Value sum, Value a, Value b) {
  auto call = [&](const char *name, ValueRange operands) {
    return LLVM::CallIntrinsicOp::create(builder, loc, sum.getType(), builder.getStringAttr(name), operands)
        .getResult(0);
  };
  if (isa.vnni) {
    return call("llvm.x86.avx512.vpdpwssd.512", {sum, a, b});
  }
  return add(sum, call(lanes() == 16 ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd", {a, b}));
}
Value Emitter::shuffle(Value a, Value b, llvm::ArrayRef<int64_t> mask) {
  return vector::ShuffleOp::create(builder, loc, a, b, mask);
}

Value Emitter::at(Value base, Type element, Value index) {
  return LLVM::GEPOp::create(builder, loc, ptr(), element, base, ArrayRef<LLVM::GEPArg>{index});
}
Value Emitter::load(Type type, Value address, unsigned alignment) {
  return LLVM::LoadOp::create(builder, loc, type, address, alignment);
}
void Emitter::store(Value value, Value address, unsigned alignment) {
  LLVM::StoreOp::create(builder, loc, value, address, alignment);
}

Value Emitter::mask(int64_t lanes, int64_t count) {
  llvm::SmallVector<bool> bits(lanes, false);
  std::fill(bits.begin(), bits.begin() + count, true);
  auto type = VectorType::get({lanes}, builder.getI1Type());
  return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, ArrayRef<bool>(bits)));
}

Value Emitter::loadFirst(Type element, int64_t lanes, int64_t count, Value address, unsigned alignment) {
  Type type = vec(element, lanes);
  if (count == lanes) {
    return load(type, address, alignment);
  }
  return loadMasked(type, address, mask(lanes, count), alignment);
}

void Emitter::storeFirst(Value value, int64_t count, Value address, unsigned alignment) {
  int64_t lanes = cast<VectorType>(value.getType()).getNumElements();
  if (count == lanes) {
    store(value, address, alignment);
    return;
  }
  storeMasked(value, address, mask(lanes, count), alignment);
}

Value Emitter::lanesBelow(Value count, int64_t lanes) {
  llvm::SmallVector<int32_t> indices(lanes);
  for (int64_t i = 0; i < lanes; ++i) {
    indices[i] = static_cast<int32_t>(i);
  }
  auto type = VectorType::get({lanes}, builder.getI32Type());
  Value index = arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, ArrayRef(indices)));
  return less(index, splat(narrow(min(count, lanes)), lanes));
}

Value Emitter::loadMasked(Type type, Value address, Value mask, unsigned alignment) {
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
  return LLVM::MaskedLoadOp::create(builder, loc, type, address, mask, zero,
                                    builder.getI32IntegerAttr(alignment), /*nontemporal=*/nullptr);
}

void Emitter::storeMasked(Value value, Value address, Value mask, unsigned alignment) {
  LLVM::MaskedStoreOp::create(builder, loc, value, address, mask, builder.getI32IntegerAttr(alignment));
}

namespace {
// llvm.prefetch of data to be read; `locality` 3 is the L1 cache, 2 the L2.
void prefetchData(OpBuilder &builder, Location loc, Value address, unsigned locality) {
  constexpr unsigned read = 0, data = 1;
  LLVM::Prefetch::create(builder, loc, address, read, locality, data);
}
} // namespace

void Emitter::prefetch(Value address) { prefetchData(builder, loc, address, 2); }
void Emitter::prefetchNear(Value address) { prefetchData(builder, loc, address, 3); }

Values Emitter::loop(Value begin, Value end, Value step, ValueRange init, const LoopBody &body) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, step, init,
                                 [&](OpBuilder &, Location, Value iv, ValueRange carried) {
                                   scf::YieldOp::create(builder, loc, body(iv, carried));
                                 });
  return Values(loop.getResults());
}

void Emitter::loop(Value begin, Value end, int64_t step, const std::function<void(Value)> &body) {
  loop(begin, end, c(step), {}, [&](Value iv, ValueRange) {
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

void Emitter::forVectors(int64_t count, int64_t width,
                         const std::function<void(Value begin, int64_t length)> &body) {
  int64_t full = count / width * width;
  if (full) {
    loop(c(0), c(full), width, [&](Value begin) { body(begin, width); });
  }
  if (full != count) {
    body(c(full), count - full);
  }
}

KernelFrame::KernelFrame(Emitter &e, Value args, Value worker) : e(e), args(args), worker(worker) {}

namespace {
Value field(Emitter &e, Value args, size_t offset, Type type) {
  return e.load(type, e.at(args, e.builder.getI8Type(), static_cast<int64_t>(offset)), 8);
}
} // namespace

Value KernelFrame::binding(unsigned index) {
  Value table = field(e, args, offsetof(smelt_kernel_args, bindings), e.ptr());
  return e.load(e.ptr(), e.at(table, e.ptr(), index), 8);
}

Value KernelFrame::constantInt(unsigned index) {
  Value table = field(e, args, offsetof(smelt_kernel_args, constants), e.ptr());
  return e.loadI32(table, e.c(index));
}

Value KernelFrame::constantFloat(unsigned index) {
  Value table = field(e, args, offsetof(smelt_kernel_args, constants), e.ptr());
  return e.load(e.f32(), e.at(table, e.f32(), index));
}

Value KernelFrame::scratch() {
  Value base = field(e, args, offsetof(smelt_kernel_args, scratch), e.ptr());
  Value stride = field(e, args, offsetof(smelt_kernel_args, scratch_stride), e.i64());
  return e.at(base, e.builder.getI8Type(), e.mul(stride, e.widen(worker)));
}

void KernelFrame::whileClaimed(const std::function<Value()> &next, Value count, ValueRange init,
                               const std::function<Values(Value unit, ValueRange carried)> &body) {
  llvm::SmallVector<Type> types(init.getTypes());
  types.insert(types.begin(), e.i64());
  Values operands(init);
  scf::WhileOp::create(
      e.builder, e.loc, types, operands,
      [&](OpBuilder &, Location, ValueRange carried) {
        Value unit = next();
        Values forwarded = {unit};
        forwarded.append(carried.begin(), carried.end());
        scf::ConditionOp::create(e.builder, e.loc, e.less(unit, count), forwarded);
      },
      [&](OpBuilder &, Location, ValueRange values) {
        scf::YieldOp::create(e.builder, e.loc, body(values.front(), values.drop_front()));
      });
}

namespace {
Value fetchAdd(Emitter &e, Value address, int64_t value, LLVM::AtomicOrdering ordering) {
  return LLVM::AtomicRMWOp::create(e.builder, e.loc, LLVM::AtomicBinOp::add, address, e.c(value), ordering);
}
} // namespace

void KernelFrame::claim(Value count, ValueRange init,
                        const std::function<Values(Value unit, ValueRange carried)> &body) {
  Value ticket = field(e, args, offsetof(smelt_kernel_args, ticket), e.ptr());
  whileClaimed([&] { return fetchAdd(e, ticket, 1, LLVM::AtomicOrdering::monotonic); }, count, init, body);
}

void KernelFrame::claimAhead(Value count, ValueRange init,
                             const std::function<Values(Value unit, Value next, ValueRange carried)> &body) {
  Value ticket = field(e, args, offsetof(smelt_kernel_args, ticket), e.ptr());
  auto take = [&] { return fetchAdd(e, ticket, 1, LLVM::AtomicOrdering::monotonic); };
  Values operands = {take()};
  operands.append(init.begin(), init.end());
  llvm::SmallVector<Type> types(ValueRange(operands).getTypes());
  scf::WhileOp::create(
      e.builder, e.loc, types, operands,
      [&](OpBuilder &, Location, ValueRange carried) {
        scf::ConditionOp::create(e.builder, e.loc, e.less(carried.front(), count), carried);
      },
      [&](OpBuilder &, Location, ValueRange values) {
        Value unit = values.front(), claimed = take();
        Values yielded = {claimed};
        yielded.append(body(unit, e.select(e.less(claimed, count), claimed, unit), values.drop_front()));
        scf::YieldOp::create(e.builder, e.loc, yielded);
      });
}

void KernelFrame::claim(Value count, const std::function<void(Value unit)> &body,
                        const std::function<void()> &last) {
  // The lower half of the ticket counts units claimed, the upper half units finished.
  constexpr int64_t finished = int64_t(1) << 32;
  Value ticket = field(e, args, offsetof(smelt_kernel_args, ticket), e.ptr());
  auto next = [&] { return e.rem(fetchAdd(e, ticket, 1, LLVM::AtomicOrdering::monotonic), finished); };
  whileClaimed(next, count, {}, [&](Value unit, ValueRange) {
    body(unit);
    Value before = fetchAdd(e, ticket, finished, LLVM::AtomicOrdering::acq_rel);
    e.when(e.equal(e.add(e.div(before, finished), 1), count), last);
    return Values();
  });
}

} // namespace smelt::codegen::cpu
