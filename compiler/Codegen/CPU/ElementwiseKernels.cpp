// Kernels without a matrix product: embed, combine_residual.
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/PanelProduct.h"

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

// A row of a packed table: one element of each line of its panel.
void copyPackedRow(Emitter &e, const KernelDesc &k, Value table, Value index, Value to) {
  int64_t hidden = k.param("hidden");
  bool pairs = k.weightType() == WeightType::bf16;
  int64_t step = pairs ? 2 : 1, steps = (hidden + step - 1) / step;
  Type element = e.elementType(k.weightType());
  Value panel = e.mul(e.div(index, kPanelColumns), steps * kPanelColumns * step);
  Value from = e.at(table, element, e.add(panel, e.mul(e.rem(index, kPanelColumns), step)));
  auto copy = [&](Value line, int64_t part) {
    Value value =
        e.load(element, e.at(from, element, e.add(e.mul(line, kPanelColumns * step), part)), pairs ? 2 : 4);
    e.store(e.toFloat(value), e.at(to, e.f32(), e.add(e.mul(line, step), part)));
  };
  e.loop(e.c(0), e.c(hidden / step), 1, [&](Value line) {
    for (int64_t part = 0; part < step; ++part) {
      copy(line, part);
    }
  });
  if (hidden % step) {
    copy(e.c(hidden / step), 0);
  }
}

} // namespace

int64_t emitEmbed(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t hidden = k.param("hidden");
  Type wType = e.elementType(k.weightType());
  Value tokenIds = frame.binding(0), table = frame.binding(1), out = frame.binding(2);
  frame.claim(frame.constantInt(0), {}, [&](Value token, ValueRange) {
    Value index = e.loadI32(tokenIds, token);
    Value to = e.at(out, e.f32(), e.mul(token, hidden));
    if (k.layout() == WeightLayout::panel16) {
      copyPackedRow(e, k, table, index, to);
      return Values();
    }
    Value from = e.at(table, wType, e.mul(index, hidden));
    e.forVectors(hidden, e.lanes(), [&](Value begin, int64_t length) {
      Value row = e.loadFirst(wType, e.lanes(), length, e.at(from, wType, begin), 1);
      e.storeFirst(e.toFloat(row), length, e.at(to, e.f32(), begin));
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
