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

// Whether kernels of a role multiply with weights; this target does so in layout panel16 only.
bool multipliesWeights(const std::string &role);

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

} // namespace smelt::codegen::cpu
