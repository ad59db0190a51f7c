// What the kernels of steps of any length share beyond an Emitter: addresses, vectors, scans over the threads
// of a block, the routing plan.
#pragma once

#include "compiler/Codegen/CUDA/Kernels.h"
#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <functional>

namespace smelt::codegen::cuda {

// `base` plus an offset in bytes.
Value bytes(Emitter &e, Value base, Value offset);
Value bytes(Emitter &e, Value base, int64_t offset);
// Products and sums in 64 bits; operands are i32 or i64.
Value wideMul(Emitter &e, Value a, Value b);
Value wideMul(Emitter &e, Value a, int64_t b);
Value wideAdd(Emitter &e, Value a, Value b);

// Vectors of one lane are scalars.
Type vectorType(Emitter &e, Type element, int64_t lanes);
Value lane(Emitter &e, Value vector, int64_t index);
Value splat(Emitter &e, Value scalar, int64_t lanes);
Value bf16ToF32(Emitter &e, Value value);
Value f32ToBf16(Emitter &e, Value value); // to nearest even

// The widest vector of f32 (in elements) that fits every row of `width` consecutive f32.
constexpr int64_t rowVector(int64_t width) { return width % 4 == 0 ? 4 : width % 2 == 0 ? 2 : 1; }

// Repeats `body` on what it carries while `condition` holds; returns what is carried at the end.
Values whileLoop(Emitter &e, ValueRange init, const std::function<Value(ValueRange)> &condition,
               const std::function<Values(ValueRange)> &body);

// Where a thread stands in its block and warp; group = lane / 4, quad = lane % 4.
struct ThreadPlace {
  explicit ThreadPlace(Emitter &e);
  Value thread, warp, lane, group, quad;
};

// Inclusive sum (or maximum) of i32 over the threads of a block of `threads` (a multiple of 32), in their
// order. `shared` has room for threads / 32 words and is free again after the next barrier.
struct BlockScan {
  Value inclusive; // up to and with this thread
  Value total;     // of all threads
};
enum class ScanKind { sum, maximum /* of values that are not negative */ };
BlockScan blockScan(Emitter &e, const ThreadPlace &place, Value value, int64_t threads, Value shared,
                    ScanKind kind);

// Sum of f32 over the first `threads` threads of a block (a multiple of 32), which all call it; `shared` as
// above.
Value blockSum(Emitter &e, const ThreadPlace &place, Value value, int64_t threads, Value shared);

// Layout of the routing plan: offsets[E + 1] | active_count | active[E] | slot_token[T * k] | slot_of[T * k].
struct RoutingPlan {
  int64_t experts, top_k;
  Value base;
  Value offsets(Emitter &) const { return base; }
  Value activeCount(Emitter &e) const { return e.at(base, e.i32(), experts + 1); }
  Value active(Emitter &e) const { return e.at(base, e.i32(), experts + 2); }
  Value slotToken(Emitter &e) const { return e.at(base, e.i32(), 2 * experts + 2); }
  Value slotOf(Emitter &e, Value tokens) const {
    return e.at(slotToken(e), e.i32(), wideMul(e, tokens, top_k));
  }
};

// Dynamic shared memory that a block of a prefill kernel may take so that two fit a multiprocessor.
int64_t sharedBudget(const Target &target);
// The most a block can have.
int64_t sharedLimit(const Target &target);

// Blocks for one of `per` tokens (or rows of logits) each.
inline GridSize gridOf(int64_t per, bool logitRows = false) {
  return {.fixed = 0, .per_token = logitRows ? 0 : 1, .per_logit_row = logitRows ? 1 : 0, .divisor = per};
}

} // namespace smelt::codegen::cuda
