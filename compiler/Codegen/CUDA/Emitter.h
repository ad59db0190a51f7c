// A thin layer over OpBuilder for writing GPU kernels: arith and scf on LLVM pointers, NVVM for what only a
// GPU has. A kernel reads like the program of one thread. Integers are i32 unless said otherwise; addresses
// are formed in 64 bits.
#pragma once

#include "compiler/Codegen/CUDA/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

#include <functional>

namespace smelt::codegen::cuda {

using mlir::Type;
using mlir::Value;
using mlir::ValueRange;
using Values = llvm::SmallVector<Value>;

constexpr int64_t WARP = 32;
constexpr int GLOBAL_SPACE = 1, SHARED_SPACE = 3;

class Emitter {
public:
  Emitter(mlir::OpBuilder &builder, mlir::Location loc, const Target &target)
      : builder(builder), loc(loc), target(target) {}

  // Types.
  Type i1() { return builder.getI1Type(); }
  Type i32() { return builder.getI32Type(); }
  Type i64() { return builder.getI64Type(); }
  Type f32() { return builder.getF32Type(); }
  Type bf16() { return builder.getBF16Type(); }
  Type ptr(int space) { return mlir::LLVM::LLVMPointerType::get(builder.getContext(), space); }
  Type vec(Type element, int64_t lanes) { return mlir::VectorType::get({lanes}, element); }

  // Integers. The second form takes a constant of the first operand's type.
  Value c(int64_t value);
  Value c64(int64_t value);
  Value flag(bool value);
  Value constantLike(Value like, int64_t value);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b); // unsigned
  Value rem(Value a, Value b); // unsigned
  Value min(Value a, Value b); // signed
  Value max(Value a, Value b); // signed
  Value andi(Value a, Value b);
  Value ori(Value a, Value b);
  Value xori(Value a, Value b);
  Value shl(Value a, Value b);
  Value shr(Value a, Value b); // logical
  Value add(Value a, int64_t b) { return b == 0 ? a : add(a, constantLike(a, b)); }
  Value sub(Value a, int64_t b) { return b == 0 ? a : sub(a, constantLike(a, b)); }
  Value mul(Value a, int64_t b) { return b == 1 ? a : mul(a, constantLike(a, b)); }
  Value div(Value a, int64_t b) { return b == 1 ? a : div(a, constantLike(a, b)); }
  Value rem(Value a, int64_t b) { return rem(a, constantLike(a, b)); }
  Value min(Value a, int64_t b) { return min(a, constantLike(a, b)); }
  Value max(Value a, int64_t b) { return max(a, constantLike(a, b)); }
  Value andi(Value a, int64_t b) { return andi(a, constantLike(a, b)); }
  Value xori(Value a, int64_t b) { return xori(a, constantLike(a, b)); }
  Value shl(Value a, int64_t b) { return shl(a, constantLike(a, b)); }
  Value shr(Value a, int64_t b) { return shr(a, constantLike(a, b)); }
  Value less(Value a, Value b); // signed
  Value lessEqual(Value a, Value b);
  Value lessUnsigned(Value a, Value b);
  Value equal(Value a, Value b);
  Value notEqual(Value a, Value b);
  Value less(Value a, int64_t b) { return less(a, constantLike(a, b)); }
  Value lessEqual(Value a, int64_t b) { return lessEqual(a, constantLike(a, b)); }
  Value greaterEqual(Value a, int64_t b) { return lessEqual(constantLike(a, b), a); }
  Value equal(Value a, int64_t b) { return equal(a, constantLike(a, b)); }
  Value notEqual(Value a, int64_t b) { return notEqual(a, constantLike(a, b)); }
  Value both(Value a, Value b) { return andi(a, b); }
  Value either(Value a, Value b) { return ori(a, b); }
  Value no(Value a);
  Value select(Value cond, Value a, Value b);
  Value ceilDiv(Value a, int64_t b) { return div(add(a, b - 1), b); }
  Value widen(Value i32value); // i32 -> i64, sign-extended
  Value widenUnsigned(Value i32value);
  Value narrow(Value i64value);    // i64 -> i32
  Value mulHigh(Value a, Value b); // upper half of the product of unsigned integers

  // Floats; nothing is contracted or reassociated but what fma says.
  Value f(double value);
  Value addf(Value a, Value b);
  Value subf(Value a, Value b);
  Value mulf(Value a, Value b);
  Value maxf(Value a, Value b);
  Value minf(Value a, Value b);
  Value negf(Value a);
  Value fma(Value a, Value b, Value acc);
  Value greater(Value a, Value b); // ordered
  Value equalf(Value a, Value b);
  Value toFloat(Value i32value); // signed
  Value bits(Value f32value);
  Value fromBits(Value i32value);
  // Approximations of the special-function unit: ex2.approx, rcp.approx, rsqrt.approx, sqrt.approx (ftz).
  Value exp2(Value a);
  Value rcp(Value a);
  Value rsqrt(Value a);
  Value exp(Value a);     // 2^(a * log2 e)
  Value sigmoid(Value a); // 1 / (1 + exp(-a))
  Value silu(Value a);    // a * sigmoid(a)

  // f64, for which the functions above that are not approximations serve as well.
  Value d(double value);
  Value toDouble(Value f32value);
  Value floor(Value f64value);
  Value toUnsigned64(Value f64value); // towards zero
  Value doubleFromBits(Value i64value);

  // bf16. A word holds two, the first in the low half.
  Value low(Value word);  // as f32
  Value high(Value word); // as f32
  Value packBf16(Value lowF32, Value highF32);
  Value toBf16(Value f32value);    // rounded to nearest even
  Value fromBf16(Value bf16value); // to f32

  // Vectors.
  Value element(Value vector, int64_t index);
  Value vectorOf(ValueRange elements);

  // Memory. Offsets are in elements of `element`, i32 (sign-extended) or i64; the result has the address
  // space of the base.
  Value at(Value base, Type element, Value index);
  Value at(Value base, Type element, int64_t index) { return at(base, element, c64(index)); }
  // Row `row` of a matrix whose rows are `stride` elements apart, in 64 bits.
  Value row(Value base, Type element, Value row, int64_t stride);
  Value load(Type type, Value address, unsigned alignment);
  // Through the read-only path (ld.global.nc): for memory nobody writes while the kernel runs.
  Value loadReadOnly(Type type, Value address, unsigned alignment);
  void store(Value value, Value address, unsigned alignment);
  Value loadF32(Value base, Value index) { return load(f32(), at(base, f32(), index), 4); }
  Value loadI32(Value base, Value index) { return load(i32(), at(base, i32(), index), 4); }
  Value readF32(Value base, Value index) { return loadReadOnly(f32(), at(base, f32(), index), 4); }
  Value readI32(Value base, Value index) { return loadReadOnly(i32(), at(base, i32(), index), 4); }
  Value readBf16(Value base, Value index); // to f32
  void storeF32(Value value, Value base, Value index) { store(value, at(base, f32(), index), 4); }
  // Four words of a stream that is read once: ld.global.nc, 16 bytes, kept out of L1. It stays where it is
  // written, before barriers that follow. The offset is part of the instruction, so that loads at constant
  // distances share one address register. With a predicate, zeros and no access where it is false.
  Values stream(Value address, int64_t byteOffset = 0);
  Values streamIf(Value predicate, Value address, int64_t byteOffset = 0);

  // Threads.
  Value thread(); // threadIdx.x
  Value block(int dimension = 0);
  Value blocks(int dimension = 0); // gridDim
  Value lane() { return andi(thread(), WARP - 1); }
  Value warp() { return div(thread(), WARP); }
  void barrier();
  void warpBarrier(); // bar.warp.sync, orders shared memory among the lanes of a warp
  // shfl.sync of all 32 lanes; value is f32 or i32.
  Value shuffleXor(Value value, int64_t laneMask);
  Value shuffleFrom(Value value, Value lane);
  Value shuffleDown(Value value, int64_t delta); // lanes beyond the last keep their own
  Value shuffleUp(Value value, int64_t delta);
  // Over groups of `lanes` adjacent lanes (a power of two) `stride` apart; every lane gets the result. The
  // order of additions is fixed.
  Value warpSum(Value value, int64_t lanes = WARP, int64_t stride = 1);
  Value warpSum64(Value i64value);
  Value warpMax(Value value, int64_t lanes = WARP, int64_t stride = 1); // f32, or signed i32
  Value warpMaxUnsigned(Value i32value);                                // redux.sync
  Value warpMinUnsigned(Value i32value);
  Value ballot(Value predicate);
  Value popCount(Value word);

  // Global memory between blocks. A release/acquire fence at device scope, and counters; atomics are relaxed:
  // LLVM drops stronger orderings, so the fence is explicit.
  void deviceFence();
  Value atomicAdd(Value address, Value increment); // the old value
  Value atomicAddShared(Value address, Value increment);
  // To be called by all threads of a block after their last write to global memory: true, in every thread, in
  // the last of `count` blocks to arrive at this counter, which then sees what the others wrote. Leaves the
  // counter zero. `flag` is an i32 in shared memory.
  Value lastToArrive(Value ticket, Value count, Value flag);

  // Inline PTX with results of one type each; always convergent and never moved or removed.
  Values asmPtx(llvm::StringRef text, llvm::StringRef constraints, ValueRange operands,
                llvm::ArrayRef<Type> results);

  // Control flow.
  using LoopBody = std::function<Values(Value iv, ValueRange carried)>;
  Values loop(Value begin, Value end, Value step, ValueRange init, const LoopBody &body);
  void loop(Value begin, Value end, Value step, const std::function<void(Value)> &body);
  void loop(Value begin, Value end, int64_t step, const std::function<void(Value)> &body) {
    loop(begin, end, constantLike(begin, step), body);
  }
  void when(Value cond, const std::function<void()> &body);
  Values choose(Value cond, const std::function<Values()> &yes, const std::function<Values()> &no);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const Target &target;

private:
  Value intrinsic(llvm::StringRef name, Type result, ValueRange operands);
};

} // namespace smelt::codegen::cuda
