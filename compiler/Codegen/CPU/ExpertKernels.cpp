// Grouped matrix products over experts: experts_gate_up, experts_down. Work is (expert with rows, column
// unit); an expert without rows is never visited and costs nothing.
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/Panel.h"

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

// Calls compute(expert, firstSlot, rows, column) for every row block of every active expert; `fill` loads the
// panel. A worker that stays with one expert of a single row block loads its rows once.
void overExperts(
    Emitter &e, KernelFrame &frame, const RoutingPlan &plan, int64_t rowBlock, int64_t columnUnits,
    const std::function<void(Value firstSlot, Value rows)> &fill,
    const std::function<void(Value expert, Value firstSlot, Value rows, Value column)> &compute) {
  Value active = e.loadI32(plan.activeCount(e), e.c(0));
  frame.claim(e.mul(active, columnUnits), {e.c(-1)}, [&](Value unit, ValueRange carried) {
    Value index = e.div(unit, columnUnits), column = e.rem(unit, columnUnits);
    Value expert = e.loadI32(plan.active(e), index);
    Value first = e.loadI32(plan.offsets(e), expert);
    Value end = e.loadI32(plan.offsets(e), e.add(expert, 1));
    Value several = e.less(e.c(rowBlock), e.sub(end, first));
    e.loop(first, end, rowBlock, [&](Value slot) {
      Value rows = e.min(e.sub(end, slot), rowBlock);
      Value stale = e.notEqual(index, carried[0]);
      stale = e.select(several, e.equal(e.c(0), e.c(0)), stale);
      e.when(stale, [&] { fill(slot, rows); });
      compute(expert, slot, rows, column);
    });
    return Values{index};
  });
}

Value expertWeight(Emitter &e, Value table, Value expert) {
  return e.load(e.ptr(), e.at(table, e.ptr(), expert), 8);
}

} // namespace

int64_t emitExpertsGateUp(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t hidden = k.param("hidden"), width = k.param("expert_hidden");
  Panel panel(e, hidden, k.weightType());
  ColumnUnits units(width);
  Type wType = e.elementType(k.weightType());
  RoutingPlan plan{k.param("experts"), k.param("top_k"), frame.binding(1)};
  Value xn = frame.binding(0), gates = frame.binding(2), ups = frame.binding(3), h = frame.binding(4);
  Value slotToken = plan.slotToken(e);
  int64_t productBytes = panel.rowBlock() * units.widest * 4;
  Value panelMemory = frame.scratch();
  Value gateProduct = e.at(panelMemory, e.builder.getI8Type(), panel.bytes());
  Value upProduct = e.at(gateProduct, e.builder.getI8Type(), productBytes);

  auto fill = [&](Value slot, Value rows) {
    panel.copyRows(panelMemory, rows, xn, e.c(hidden),
                   [&](Value row) { return e.loadI32(slotToken, e.add(slot, row)); });
  };
  auto compute = [&](Value expert, Value slot, Value rows, Value unit) {
    Value begin = units.begin(e, unit), columns = units.columns(e, unit);
    Value offset = e.mul(begin, hidden);
    panel.multiply(panelMemory, rows, e.at(expertWeight(e, gates, expert), wType, offset), columns, width,
                   gateProduct, units.widest);
    panel.multiply(panelMemory, rows, e.at(expertWeight(e, ups, expert), wType, offset), columns, width,
                   upProduct, units.widest);
    e.loop(e.c(0), rows, 1, [&](Value row) {
      Value at = e.mul(row, units.widest);
      swigluRow(e, e.at(gateProduct, e.f32(), at), e.at(upProduct, e.f32(), at),
                e.at(h, e.f32(), e.add(e.mul(e.add(slot, row), width), begin)), columns);
    });
  };
  overExperts(e, frame, plan, panel.rowBlock(), units.count, fill, compute);
  return panel.bytes() + 2 * productBytes;
}

int64_t emitExpertsDown(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t hidden = k.param("hidden"), width = k.param("expert_hidden");
  Panel panel(e, width, k.weightType());
  ColumnUnits units(hidden);
  Type wType = e.elementType(k.weightType());
  RoutingPlan plan{k.param("experts"), k.param("top_k"), frame.binding(1)};
  Value h = frame.binding(0), downs = frame.binding(2), y = frame.binding(3);
  Value panelMemory = frame.scratch();

  auto fill = [&](Value slot, Value rows) {
    panel.copyRows(panelMemory, rows, h, e.c(width), [&](Value row) { return e.add(slot, row); });
  };
  auto compute = [&](Value expert, Value slot, Value rows, Value unit) {
    Value begin = units.begin(e, unit), columns = units.columns(e, unit);
    panel.multiply(panelMemory, rows, e.at(expertWeight(e, downs, expert), wType, e.mul(begin, width)),
                   columns, hidden, e.at(y, e.f32(), e.add(e.mul(slot, hidden), begin)), hidden);
  };
  overExperts(e, frame, plan, panel.rowBlock(), units.count, fill, compute);
  return panel.bytes();
}

} // namespace smelt::codegen::cpu
