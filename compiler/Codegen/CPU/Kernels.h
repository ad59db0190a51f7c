// The kernel templates: one emitter per role. Each writes the body of one kernel function and returns the
// bytes of scratch a worker needs.
#pragma once

#include "compiler/Codegen/CPU/Emitter.h"

namespace smelt::codegen::cpu {

using KernelEmitter = int64_t (*)(Emitter &e, KernelFrame &frame, const KernelDesc &kernel);

int64_t emitEmbed(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitNormLinear(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitLinearResidual(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitGateUp(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitRopeAppend(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitAttention(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitRoute(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitMoePlan(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitExpertsGateUp(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitExpertsDown(Emitter &, KernelFrame &, const KernelDesc &);
int64_t emitCombineResidual(Emitter &, KernelFrame &, const KernelDesc &);

// Null for a role this target does not implement.
KernelEmitter kernelEmitter(const std::string &role);

// Result columns shared out in units of kUnitColumns; the last unit takes the rest, so that no unit is
// narrower than a register tile unless the whole result is.
struct ColumnUnits {
  explicit ColumnUnits(int64_t total);
  Value begin(Emitter &e, Value unit) const;
  Value columns(Emitter &e, Value unit) const;

  int64_t total;
  int64_t count;
  int64_t widest; // columns of the last unit
};
inline constexpr int64_t kUnitColumns = 32;

// Layout of the routing plan: offsets[E + 1] | active_count | active[E] | slot_token[T * k] | slot_of[T * k].
struct RoutingPlan {
  int64_t experts, top_k;
  Value base;
  Value offsets(Emitter &e) const { return base; }
  Value activeCount(Emitter &e) const { return e.at(base, e.i32(), experts + 1); }
  Value active(Emitter &e) const { return e.at(base, e.i32(), experts + 2); }
  Value slotToken(Emitter &e) const { return e.at(base, e.i32(), 2 * experts + 2); }
  Value slotOf(Emitter &e, Value tokens) const { return e.at(slotToken(e), e.i32(), e.mul(tokens, top_k)); }
};

// x_out[c] = x_in[c] + scale * update[c] over `count` columns known at run time.
void addScaledRow(Emitter &e, Value update, Value xIn, Value xOut, Value count, Value scale);

// gate[c] = silu(gate[c]) * up[c] into h, over `count` columns known at run time.
void swigluRow(Emitter &e, Value gate, Value up, Value h, Value count);

} // namespace smelt::codegen::cpu
