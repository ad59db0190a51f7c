// Grouped matrix products over experts: experts_gate_up, experts_down. Work is (expert with rows, column
// unit); an expert without rows is never visited and costs nothing.
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/PanelProduct.h"

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

// A column unit of an expert.
struct ExpertUnit {
  Value index; // among the active experts
  Value expert;
  Value column;
};

// Calls compute(unit, next, firstSlot, rows) for every row block of every active expert, `next` being the
// unit that follows; `fill` loads the rows. A worker that stays with one expert of a single row block loads
// its rows once.
void overExperts(Emitter &e, KernelFrame &frame, const RoutingPlan &plan, int64_t rowBlock,
                 int64_t columnUnits, const std::function<void(Value firstSlot, Value rows)> &fill,
                 const std::function<void(const ExpertUnit &unit, const ExpertUnit &next, Value firstSlot,
                                          Value rows)> &compute) {
  Value active = e.loadI32(plan.activeCount(e), e.c(0));
  auto resolve = [&](Value unit) {
    Value index = e.div(unit, columnUnits);
    return ExpertUnit{index, e.loadI32(plan.active(e), index), e.rem(unit, columnUnits)};
  };
  frame.claimAhead(e.mul(active, columnUnits), {e.c(-1)},
                   [&](Value claimed, Value after, ValueRange carried) {
                     ExpertUnit unit = resolve(claimed), next = resolve(after);
                     Value index = unit.index, expert = unit.expert;
                     Value first = e.loadI32(plan.offsets(e), expert);
                     Value end = e.loadI32(plan.offsets(e), e.add(expert, 1));
                     Value several = e.less(e.c(rowBlock), e.sub(end, first));
                     e.loop(first, end, rowBlock, [&](Value slot) {
                       Value rows = e.min(e.sub(end, slot), rowBlock);
                       Value stale = e.notEqual(index, carried[0]);
                       stale = e.select(several, e.equal(e.c(0), e.c(0)), stale);
                       e.when(stale, [&] { fill(slot, rows); });
                       compute(unit, next, slot, rows);
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
  RowBlock block(e, hidden, k.weightType());
  PanelProduct product(e, block, hidden, k.weightType(), 2, RowCounts::oftenFew);
  PanelUnits units(width, 2);
  RoutingPlan plan{k.param("experts"), k.param("top_k"), frame.binding(1)};
  Value xn = frame.binding(0), gates = frame.binding(2), ups = frame.binding(3), h = frame.binding(4);
  Value slotToken = plan.slotToken(e);
  Value memory = frame.scratch();
  Value productScratch = e.at(memory, e.builder.getI8Type(), block.bytes());

  auto fill = [&](Value slot, Value rows) {
    block.copyRows(memory, rows, xn, e.c(hidden),
                   [&](Value row) { return e.loadI32(slotToken, e.add(slot, row)); });
  };
  auto compute = [&](const ExpertUnit &unit, const ExpertUnit &next, Value slot, Value rows) {
    Values pair, following;
    for (Value table : {gates, ups}) {
      pair.push_back(expertWeight(e, table, unit.expert));
      following.push_back(product.panel(expertWeight(e, table, next.expert), units.first(e, next.column)));
    }
    product.run({memory, rows, pair, units.first(e, unit.column), units.panels(e, unit.column), e.c(width),
                 following},
                productScratch, [&](const PanelProduct::Result &result) {
                  storeSwiglu(e, result, e.at(h, e.f32(), e.mul(e.add(slot, result.row), width)));
                });
  };
  overExperts(e, frame, plan, block.capacity(), units.count, fill, compute);
  return block.bytes() + product.scratchBytes();
}

int64_t emitExpertsDown(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t hidden = k.param("hidden"), width = k.param("expert_hidden");
  RowBlock block(e, width, k.weightType(), RowSource::matrix);
  PanelProduct product(e, block, width, k.weightType(), 1, RowCounts::oftenFew);
  PanelUnits units(hidden, 1);
  RoutingPlan plan{k.param("experts"), k.param("top_k"), frame.binding(1)};
  Value h = frame.binding(0), downs = frame.binding(2), y = frame.binding(3);
  Value memory = frame.scratch();
  Value productScratch = e.at(memory, e.builder.getI8Type(), block.bytes());

  auto fill = [&](Value slot, Value rows) {
    if (!block.inPlace()) {
      block.copyRows(memory, rows, h, e.c(width), [&](Value row) { return e.add(slot, row); });
    }
  };
  auto compute = [&](const ExpertUnit &unit, const ExpertUnit &next, Value slot, Value rows) {
    Value weight = expertWeight(e, downs, unit.expert);
    Value following = product.panel(expertWeight(e, downs, next.expert), units.first(e, next.column));
    product.run({block.inPlace() ? e.at(h, e.f32(), e.mul(slot, width)) : memory,
                 rows,
                 {weight},
                 units.first(e, unit.column),
                 units.panels(e, unit.column),
                 e.c(hidden),
                 {following}},
                productScratch, [&](const PanelProduct::Result &result) {
                  Value at = e.add(e.mul(e.add(slot, result.row), hidden), result.column);
                  for (auto [v, sum] : llvm::enumerate(result.sums[0])) {
                    storeColumns(e, result, v, sum, e.at(y, e.f32(), at));
                  }
                });
  };
  overExperts(e, frame, plan, block.capacity(), units.count, fill, compute);
  return block.bytes() + product.scratchBytes();
}

} // namespace smelt::codegen::cpu
