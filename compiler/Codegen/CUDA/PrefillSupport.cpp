#include "compiler/Codegen/CUDA/PrefillSupport.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace smelt::codegen::cuda {

namespace {
Value wide(Emitter &e, Value value) { return value.getType().isInteger(64) ? value : e.widen(value); }
} // namespace

Value bytes(Emitter &e, Value base, Value offset) { return e.at(base, e.builder.getI8Type(), offset); }
Value bytes(Emitter &e, Value base, int64_t offset) {
  return offset ? e.at(base, e.builder.getI8Type(), offset) : base;
}
Value wideMul(Emitter &e, Value a, Value b) { return e.mul(wide(e, a), wide(e, b)); }
Value wideMul(Emitter &e, Value a, int64_t b) { return e.mul(wide(e, a), b); }
Value wideAdd(Emitter &e, Value a, Value b) { return e.add(wide(e, a), wide(e, b)); }

Type vectorType(Emitter &e, Type element, int64_t lanes) {
  return lanes == 1 ? element : e.vec(element, lanes);
}
Value lane(Emitter &e, Value vector, int64_t index) {
  return isa<VectorType>(vector.getType()) ? e.element(vector, index) : vector;
}
Value splat(Emitter &e, Value scalar, int64_t lanes) {
  return lanes == 1 ? scalar : e.vectorOf(Values(lanes, scalar));
}
Value bf16ToF32(Emitter &e, Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  Type type = vector ? e.vec(e.f32(), vector.getNumElements()) : e.f32();
  return arith::ExtFOp::create(e.builder, e.loc, type, value);
}
Value f32ToBf16(Emitter &e, Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  Type type = vector ? e.vec(e.bf16(), vector.getNumElements()) : e.bf16();
  return arith::TruncFOp::create(e.builder, e.loc, type, value);
}

Values whileLoop(Emitter &e, ValueRange init, const std::function<Value(ValueRange)> &condition,
               const std::function<Values(ValueRange)> &body) {
  auto loop = scf::WhileOp::create(
      e.builder, e.loc, init.getTypes(), init,
      [&](OpBuilder &, Location, ValueRange carried) {
        scf::ConditionOp::create(e.builder, e.loc, condition(carried), carried);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        scf::YieldOp::create(e.builder, e.loc, body(carried));
      });
  return Values(loop.getResults());
}

ThreadPlace::ThreadPlace(Emitter &e) {
  thread = e.thread();
  warp = e.shr(thread, 5);
  lane = e.andi(thread, 31);
  group = e.shr(lane, 2);
  quad = e.andi(lane, 3);
}

BlockScan blockScan(Emitter &e, const ThreadPlace &place, Value value, int64_t threads, Value shared,
                    ScanKind kind) {
  auto combine = [&](Value a, Value b) { return kind == ScanKind::sum ? e.add(a, b) : e.max(a, b); };
  for (int64_t distance = 1; distance < WARP; distance *= 2) {
    Value before = e.shuffleUp(value, distance);
    value = e.select(e.less(place.lane, distance), value, combine(before, value));
  }
  e.when(e.equal(place.lane, WARP - 1), [&] { e.store(value, e.at(shared, e.i32(), place.warp), 4); });
  e.barrier();
  Value before = e.c(0), total = e.c(0);
  for (int64_t warp = 0; warp < threads / WARP; ++warp) {
    Value sum = e.load(e.i32(), e.at(shared, e.i32(), warp), 4);
    before = e.select(e.less(e.c(warp), place.warp), combine(before, sum), before);
    total = combine(total, sum);
  }
  return {combine(before, value), total};
}

Value blockSum(Emitter &e, const ThreadPlace &place, Value value, int64_t threads, Value shared) {
  value = e.warpSum(value);
  if (threads == WARP) {
    return value;
  }
  e.when(e.equal(place.lane, 0), [&] { e.store(value, e.at(shared, e.f32(), place.warp), 4); });
  e.barrier();
  Value sum = e.load(e.f32(), shared, 4);
  for (int64_t warp = 1; warp < threads / WARP; ++warp) {
    sum = e.addf(sum, e.load(e.f32(), e.at(shared, e.f32(), warp), 4));
  }
  return sum;
}

// Shared memory of a multiprocessor, by compute capability: 164 KiB (8.0), 100 (8.6, 8.9), 228 (9.0 and up),
// less 1 KiB a block that the system keeps.
int64_t sharedBudget(const Target &target) {
  return target.compute_capability == 86 || target.compute_capability == 89 ? 49152
         : target.compute_capability < 90                                   ? 73728
                                                                            : 98304;
}
int64_t sharedLimit(const Target &target) {
  return target.compute_capability == 86 || target.compute_capability == 89 ? 101376
         : target.compute_capability < 90                                   ? 166912
                                                                            : 232448;
}

} // namespace smelt::codegen::cuda
