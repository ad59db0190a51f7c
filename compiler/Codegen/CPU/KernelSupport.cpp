#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <algorithm>

using namespace mlir;

namespace smelt::codegen::cpu {

KernelEmitter kernelEmitter(const std::string &role) {
  static const std::map<std::string, KernelEmitter> table = {
      {"embed", emitEmbed},
      {"norm_linear", emitNormLinear},
      {"linear_residual", emitLinearResidual},
      {"gate_up", emitGateUp},
      {"rope_append", emitRopeAppend},
      {"attention", emitAttention},
      {"route", emitRoute},
      {"moe_plan", emitMoePlan},
      {"experts_gate_up", emitExpertsGateUp},
      {"experts_down", emitExpertsDown},
      {"combine_residual", emitCombineResidual},
  };
  auto it = table.find(role);
  return it == table.end() ? nullptr : it->second;
}

ColumnUnits::ColumnUnits(int64_t total)
    : total(total), count(std::max<int64_t>(1, total / kUnitColumns)),
      widest(total - (count - 1) * kUnitColumns) {}

Value ColumnUnits::begin(Emitter &e, Value unit) const { return e.mul(unit, kUnitColumns); }

Value ColumnUnits::columns(Emitter &e, Value unit) const {
  return e.select(e.equal(unit, e.c(count - 1)), e.c(widest), e.c(std::min(kUnitColumns, widest)));
}

namespace {
// Runs body on full vectors of a run-time number of columns, then lane by lane on the rest.
void overColumns(Emitter &e, Value count, const std::function<void(Value begin, int64_t lanes)> &body) {
  Value full = e.sub(count, e.rem(count, e.lanes()));
  e.loop(e.c(0), full, e.lanes(), [&](Value begin) { body(begin, e.lanes()); });
  e.loop(full, count, 1, [&](Value begin) { body(begin, 1); });
}
} // namespace

void addScaledRow(Emitter &e, Value update, Value xIn, Value xOut, Value count, Value scale) {
  overColumns(e, count, [&](Value begin, int64_t lanes) {
    Type type = e.vec(e.f32(), lanes);
    Value x = e.load(type, e.at(xIn, e.f32(), begin));
    Value y = e.load(type, e.at(update, e.f32(), begin));
    e.store(e.fma(y, e.splat(scale, lanes), x), e.at(xOut, e.f32(), begin));
  });
}

void swigluRow(Emitter &e, Value gate, Value up, Value h, Value count) {
  overColumns(e, count, [&](Value begin, int64_t lanes) {
    Type type = e.vec(e.f32(), lanes);
    Value g = e.load(type, e.at(gate, e.f32(), begin));
    Value u = e.load(type, e.at(up, e.f32(), begin));
    e.store(e.mulf(silu(e, g), u), e.at(h, e.f32(), begin));
  });
}

} // namespace smelt::codegen::cpu
