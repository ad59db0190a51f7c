#include "compiler/Codegen/CUDA/GroupedPlan.h"

using namespace mlir;

namespace smelt::codegen::cuda {

void emitTileList(Emitter &e, const RoutingPlan &plan, const TileList &list, int64_t maxTokens,
                  int64_t threads, Value shared) {
  ThreadPlace place(e);
  Value offsets = plan.offsets(e), active = plan.active(e);
  Value activeCount = e.load(e.i32(), plan.activeCount(e), 4);
  Value rowShared = bytes(e, shared, threads / WARP * 4);
  Values init = {e.c(0), e.c(0)}; // tiles and padded rows so far
  Values total = e.loop(e.c(0), activeCount, e.c(threads), init, [&](Value first, ValueRange carried) {
    Value index = e.add(first, place.thread);
    Value present = e.less(index, activeCount);
    Value expert = e.loadI32(active, e.select(present, index, e.c(0)));
    Value slot = e.loadI32(offsets, expert);
    Value end = e.loadI32(offsets, e.add(expert, 1));
    Value slots = e.select(present, e.sub(end, slot), e.c(0));
    Value count = e.ceilDiv(slots, maxTokens), padded = e.mul(e.ceilDiv(slots, 8), 8);
    BlockScan tiles = blockScan(e, place, count, threads, shared, ScanKind::sum);
    BlockScan rows = blockScan(e, place, padded, threads, rowShared, ScanKind::sum);
    Value at = e.add(carried[0], e.sub(tiles.inclusive, count));
    Value row = e.add(carried[1], e.sub(rows.inclusive, padded));
    // Slots of a tile, in steps of 8; never more than maxTokens, a multiple of 8.
    Value even = e.div(e.add(slots, e.sub(count, 1)), e.max(count, 1));
    Value width = e.mul(e.ceilDiv(even, 8), 8);
    e.loop(e.c(0), count, 1, [&](Value tile) {
      Value before = e.mul(tile, width), begin = e.add(slot, before);
      Value held = e.min(e.sub(end, begin), width);
      Value address = bytes(e, list.base, wideMul(e, e.add(e.add(at, tile), 1), TILE_BYTES));
      e.store(e.vectorOf({expert, begin, held, e.add(row, before)}), address, 16);
    });
    e.barrier(); // the next stretch writes the shared totals again
    return Values{e.add(carried[0], tiles.total), e.add(carried[1], rows.total)};
  });
  e.when(e.equal(place.thread, 0), [&] { e.store(total[0], list.base, 4); });
}

UnitPanels unitPanels(Emitter &e, const GroupedShape &s, Value firstTable, Value secondTable, Value expert,
                      Value block) {
  Value offset = wideMul(e, expert, expertStride(s.rows, s.depth));
  Value first = bytes(e, firstTable, offset);
  if (s.down) {
    Value even = e.mul(block, 2);
    return {{first, first}, {even, e.add(even, 1)}};
  }
  return {{first, bytes(e, secondTable, offset)}, {block, block}};
}

void storeUnit(Emitter &e, const GroupedShape &s, const UnitPanels &panels, Value out, Value firstSlot,
               Value slots, llvm::ArrayRef<PlacedSum> sums) {
  auto store = [&](const PlacedSum &sum, Value row, Value value) {
    Value valid = e.both(e.less(row, s.rows), e.less(sum.token, slots));
    Value offset = wideAdd(e, wideMul(e, e.add(firstSlot, sum.token), s.rows), row);
    e.when(valid, [&] { e.store(value, e.at(out, e.f32(), offset), 4); });
  };
  for (const PlacedSum &sum : sums) {
    Value row = e.add(e.mul(panels.block[0], PANEL_ROWS), sum.row);
    if (s.down) {
      store(sum, row, sum.sums[0]);
      store(sum, e.add(row, PANEL_ROWS), sum.sums[1]);
    } else {
      store(sum, row, e.mulf(e.silu(sum.sums[0]), sum.sums[1]));
    }
  }
}

Value takeUnit(Emitter &e, StageFrame &frame) { return e.atomicAdd(frame.ticket(0), e.c(1)); }

void finishUnits(Emitter &e, StageFrame &frame) {
  e.deviceFence(); // this block's takes come before it counts as done
  Value done = e.atomicAdd(frame.ticket(1), e.c(1));
  e.when(e.equal(done, e.sub(e.blocks(0), 1)), [&] {
    e.deviceFence();
    e.store(e.c(0), frame.ticket(0), 4);
    e.store(e.c(0), frame.ticket(1), 4);
  });
}

} // namespace smelt::codegen::cuda
