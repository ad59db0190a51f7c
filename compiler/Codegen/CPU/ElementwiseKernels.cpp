// Kernels without a matrix product: embed, combine_residual.
#include "compiler/Codegen/CPU/Kernels.h"

using namespace mlir;

namespace smelt::codegen::cpu {

int64_t emitEmbed(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t hidden = k.param("hidden");
  Type wType = e.elementType(k.weightType());
  Value tokenIds = frame.binding(0), table = frame.binding(1), out = frame.binding(2);
  frame.claim(frame.constantInt(0), {}, [&](Value token, ValueRange) {
    Value from = e.at(table, wType, e.mul(e.loadI32(tokenIds, token), hidden));
    Value to = e.at(out, e.f32(), e.mul(token, hidden));
    e.forVectors(hidden, e.lanes(), [&](Value begin, int64_t length) {
      Value row = e.loadFirst(wType, e.lanes(), length, e.at(from, wType, begin), 1);
      e.storeFirst(e.toFloat(row, e.vec(e.f32(), e.lanes())), length, e.at(to, e.f32(), begin));
    });
    return Values();
  });
  return 0;
}

int64_t emitCombineResidual(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t hidden = k.param("hidden");
  RoutingPlan plan{k.param("experts"), k.param("top_k"), frame.binding(1)};
  Value y = frame.binding(0), weights = frame.binding(2), xIn = frame.binding(3), xOut = frame.binding(4);
  Value tokens = frame.constantInt(0), scale = frame.constantFloat(1);
  Value slotOf = plan.slotOf(e, tokens);
  frame.claim(tokens, {}, [&](Value token, ValueRange) {
    Value pair = e.mul(token, plan.top_k), row = e.mul(token, hidden);
    e.forVectors(hidden, e.lanes(), [&](Value begin, int64_t length) {
      // Chosen experts are added in order of descending score, whatever their slots.
      Value sum = e.loop(e.c(0), e.c(plan.top_k), e.c(1), {e.splat(0.0, e.lanes())},
                         [&](Value j, ValueRange carried) {
                           Value slot = e.loadI32(slotOf, e.add(pair, j));
                           Value address = e.at(y, e.f32(), e.add(e.mul(slot, hidden), begin));
                           Value part = e.loadFirst(e.f32(), e.lanes(), length, address);
                           Value w = e.splat(e.loadF32(weights, e.add(pair, j)), e.lanes());
                           return Values{e.fma(w, part, carried[0])};
                         })[0];
      Value at = e.add(row, begin);
      Value x = e.loadFirst(e.f32(), e.lanes(), length, e.at(xIn, e.f32(), at));
      e.storeFirst(e.fma(sum, e.splat(scale, e.lanes()), x), length, e.at(xOut, e.f32(), at));
    });
    return Values();
  });
  return 0;
}

} // namespace smelt::codegen::cpu
