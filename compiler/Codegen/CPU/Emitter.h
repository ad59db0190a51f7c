// A thin layer over OpBuilder for writing kernels: arith, math, scf and vector operations on LLVM pointers,
// spelled so that a kernel reads like the loop nest it is.
#pragma once

#include "compiler/Codegen/CPU/IsaLevel.h"
#include "compiler/Codegen/Common/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

#include <functional>

namespace smelt::codegen::cpu {

using mlir::Type;
using mlir::Value;
using Values = llvm::SmallVector<Value>;

class Emitter {
public:
  Emitter(mlir::OpBuilder &builder, mlir::Location loc, const IsaLevel &isa)
      : builder(builder), loc(loc), isa(isa) {}

  // Types.
  Type i32() { return builder.getI32Type(); }
  Type i64() { return builder.getI64Type(); }
  Type f32() { return builder.getF32Type(); }
  Type i16() { return builder.getI16Type(); }
  Type bf16() { return builder.getBF16Type(); } // for VDPBF16PS alone; see elementType
  Type ptr();
  // What holds a value in memory. A bf16 is loaded as its bits: where there are no bf16 registers, LLVM moves
  // a bf16 as an f32 and calls a library to round it back.
  Type elementType(bool isBf16) { return isBf16 ? i16() : f32(); }
  Type elementType(WeightType type) { return elementType(type == WeightType::bf16); }
  Type vec(Type element, int64_t lanes);
  int64_t lanes() const { return isa.lanes; }

  // Integers are i64.
  Value c(int64_t value);
  Value c32(int32_t value);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b); // unsigned
  Value rem(Value a, Value b); // unsigned
  Value min(Value a, Value b); // signed
  Value max(Value a, Value b); // signed
  Value select(Value cond, Value a, Value b);
  Value add(Value a, int64_t b) { return add(a, c(b)); }
  Value sub(Value a, int64_t b) { return sub(a, c(b)); }
  Value mul(Value a, int64_t b) { return mul(a, c(b)); }
  Value div(Value a, int64_t b) { return div(a, c(b)); }
  Value rem(Value a, int64_t b) { return rem(a, c(b)); }
  Value min(Value a, int64_t b) { return min(a, c(b)); }
  Value max(Value a, int64_t b) { return max(a, c(b)); }
  Value less(Value a, Value b); // signed
  Value lessEqual(Value a, Value b);
  Value equal(Value a, Value b);
  Value notEqual(Value a, Value b);
  Value less(Value a, int64_t b) { return less(a, c(b)); }
  Value lessEqual(Value a, int64_t b) { return lessEqual(a, c(b)); }
  Value widen(Value i32value); // i32 -> i64, sign-extended
  Value narrow(Value i64value);

  // Floats: scalars and vectors alike; none of these may be reassociated or contracted.
  Value f(double value);
  Value splat(Value scalar, int64_t lanes);
  Value splat(double value, int64_t lanes) { return splat(f(value), lanes); }
  Value addf(Value a, Value b);
  Value subf(Value a, Value b);
  Value mulf(Value a, Value b);
  Value divf(Value a, Value b);
  Value maxf(Value a, Value b); // -0 and NaN as llvm.maxnum
  Value fma(Value a, Value b, Value acc);
  Value sqrt(Value a);
  Value greater(Value a, Value b); // ordered
  Value equalf(Value a, Value b);
  Value bitsToFloat(Value i32value);
  Value toFloat(Value a); // f32 of what an elementType holds
  // Of vectors of i16, twice as many as lanes: adds the products of two neighbours to a sum of i32.
  Value addPairs(Value sum, Value a, Value b);
  Value shuffle(Value a, Value b, llvm::ArrayRef<int64_t> mask);

  // Memory. Offsets are in elements of `element`.
  Value at(Value base, Type element, Value index);
  Value at(Value base, Type element, int64_t index) { return at(base, element, c(index)); }
  Value load(Type type, Value address, unsigned alignment = 4);
  void store(Value value, Value address, unsigned alignment = 4);
  Value loadF32(Value base, Value index) { return load(f32(), at(base, f32(), index)); }
  Value loadI32(Value base, Value index) { return widen(load(i32(), at(base, i32(), index))); }
  // The first `count` (at most `lanes`) elements of a vector; the rest read as zero and are not stored.
  Value loadFirst(Type element, int64_t lanes, int64_t count, Value address, unsigned alignment = 4);
  void storeFirst(Value value, int64_t count, Value address, unsigned alignment = 4);
  // The lanes below a count known at run time (any integer); the masked-out lanes read as zero.
  Value lanesBelow(Value count, int64_t lanes);
  Value loadMasked(Type type, Value address, Value mask, unsigned alignment = 4);
  void storeMasked(Value value, Value address, Value mask, unsigned alignment = 4);
  void prefetch(Value address);     // into the L2 cache
  void prefetchNear(Value address); // into the L1 cache

  // Control flow.
  using LoopBody = std::function<Values(Value iv, mlir::ValueRange carried)>;
  Values loop(Value begin, Value end, Value step, mlir::ValueRange init, const LoopBody &body);
  void loop(Value begin, Value end, int64_t step, const std::function<void(Value)> &body);
  void when(Value cond, const std::function<void()> &body);
  Values choose(Value cond, const std::function<Values()> &yes, const std::function<Values()> &no);

  // Calls body(begin, length) for every full vector of [0, count), then once for the rest: length is a
  // compile-time number of lanes.
  void forVectors(int64_t count, int64_t width, const std::function<void(Value begin, int64_t length)> &body);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const IsaLevel &isa;

private:
  Value mask(int64_t lanes, int64_t count);
};

// The arguments of a kernel and its share of the work.
class KernelFrame {
public:
  KernelFrame(Emitter &e, Value args, Value worker);

  Value binding(unsigned index);
  Value constantInt(unsigned index);   // as i64
  Value constantFloat(unsigned index); // its bits
  Value scratch();                     // this worker's, 64-byte aligned

  // Claims units 0..count-1 one by one until none is left. `carried` travels from unit to unit of one worker.
  void claim(Value count, mlir::ValueRange init,
             const std::function<Values(Value unit, mlir::ValueRange carried)> &body);

  // The same with every unit claimed while the one before is computed, so that a worker can read ahead:
  // `next` is the unit it computes after this one, `unit` again for its last.
  void claimAhead(Value count, mlir::ValueRange init,
                  const std::function<Values(Value unit, Value next, mlir::ValueRange carried)> &body);

  // The first again, with a unit at most 2^31; whoever finishes the last unit calls `last`, once everything
  // that the others have written is visible.
  void claim(Value count, const std::function<void(Value unit)> &body, const std::function<void()> &last);

private:
  void whileClaimed(const std::function<Value()> &next, Value count, mlir::ValueRange init,
                    const std::function<Values(Value unit, mlir::ValueRange carried)> &body);

  Emitter &e;
  Value args, worker;
};

} // namespace smelt::codegen::cpu
