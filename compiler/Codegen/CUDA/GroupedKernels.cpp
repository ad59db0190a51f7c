// experts_gate_up and experts_down of many tokens: every expert's matrix times the rows of the tokens that
// chose it. Stage 0 brings the rows into bf16 and lists the work: tiles of at most 128 (or 64) slots of one
// expert. Stage 1 takes units of (tile, block of weight rows) from a counter until none is left, so that the
// host never needs to know how many rows an expert has, and experts without rows cost nothing. sm_90a has
// stages of its own, see GroupedWgmma.cpp.
#include "compiler/Codegen/CUDA/GroupedPlan.h"
#include "compiler/Codegen/CUDA/PrefillKernels.h"

using namespace mlir;

namespace smelt::codegen::cuda {

namespace {

// Scratch: bf16 rows (by token for gate and up, by slot for down), then the list of tiles.
int64_t rowsPerToken(const GroupedShape &s) { return s.down ? s.top_k : 1; }
TileList tileList(Emitter &e, const GroupedShape &s, StageFrame &frame) {
  return {bytes(e, frame.scratch(), wideMul(e, frame.constantInt(0), s.rowBytes() * rowsPerToken(s)))};
}

// Hands out units to a block.
class UnitQueue {
public:
  UnitQueue(Emitter &e, StageFrame &frame)
      : e(e), frame(frame), first(e.equal(e.thread(), 0)), word(frame.shared(4)) {}

  // Calls body(unit) for the units this block gets. `body` must call announceNext() once, before a barrier
  // that follows in it, and may use shared memory but `word`.
  void run(Value count, const std::function<void(Value unit)> &body) {
    announce(take());
    e.barrier();
    Value start = e.load(e.i32(), word, 4);
    whileLoop(
        e, start, [&](ValueRange carried) { return e.less(carried[0], count); },
        [&](ValueRange carried) {
          e.barrier();   // everyone has read `word` and left the last unit
          next = take(); // its latency passes behind the first copies of this unit
          body(carried[0]);
          return Values{e.load(e.i32(), word, 4)};
        });
    e.when(first, [&] { finishUnits(e, frame); });
  }
  void announceNext() { announce(next); }

private:
  Value take() {
    return e.choose(first, [&] { return Values{takeUnit(e, frame)}; }, [&] { return Values{e.c(0)}; })[0];
  }
  void announce(Value unit) {
    e.when(first, [&] { e.store(unit, word, 4); });
  }

  Emitter &e;
  StageFrame &frame;
  Value first, word, next;
};

// One unit on mma.sync.
class GroupedProduct {
public:
  struct Unit {
    UnitPanels panels;
    Value rows;      // bf16 rows in scratch
    Value slotToken; // row of a slot; null: rows are by slot
    Value firstSlot, slots;
  };
  using Finish = std::function<void(llvm::ArrayRef<PlacedSum>)>;

  GroupedProduct(Emitter &e, const GroupedShape &s, Value ring, int64_t ringBytes)
      : e(e), place(e), s(s), ring(ring), ringBytes(ringBytes), columns(paddedColumns(s.depth)),
        chunk(e.andi(e.shr(place.thread, 3), 7)) {}
  void run(const Unit &unit, const std::function<void()> &meanwhile, const Finish &finish);

private:
  struct Panel {
    Value table, base, rows, step; // matrix, first tile, padded rows in it, bytes from tile to tile
  };
  // Chunks of 16 bytes of the token rows that this thread copies: where they start, and whether the row is
  // there.
  using RowChunks = llvm::SmallVector<std::pair<Value, Value>>;

  Panel panelAt(Value table, Value block);
  void loadPanel(const Panel &panel, Value to, Value index);
  RowChunks rowChunks(const Unit &unit, int64_t tokens);
  void loadRows(const RowChunks &rows, int64_t tokens, Value to, Value index);

  Emitter &e;
  ThreadPlace place;
  const GroupedShape &s;
  Value ring;
  int64_t ringBytes;
  int64_t columns; // of a row, padded
  Value chunk;     // of a row, in a stage: this thread's
};

GroupedProduct::Panel GroupedProduct::panelAt(Value table, Value block) {
  Value before = e.mul(block, TILE);
  Value rows = e.max(e.min(e.sub(e.c(paddedRows(s.rows)), before), TILE), 0);
  return {table, bytes(e, table, wideMul(e, before, 2 * columns)), rows, e.mul(rows, 2 * BLOCK_DEPTH)};
}

// A tile is contiguous and already in the order of shared memory: thread t copies 16-byte chunks t, t + 128,
// ...; what a ragged tile lacks becomes zero.
void GroupedProduct::loadPanel(const Panel &panel, Value to, Value index) {
  int64_t tail = columns % BLOCK_DEPTH, last = (columns - 1) / BLOCK_DEPTH;
  bool whole = !s.ragged() && !tail;
  Value blocks = tail ? e.select(e.equal(index, last), e.c(tail / 8), e.c(8)) : e.c(8);
  Value chunks = e.mul(panel.rows, blocks);
  Value from = bytes(e, panel.base, wideAdd(e, wideMul(e, index, panel.step), e.mul(place.thread, 16)));
  Value target = bytes(e, to, e.mul(place.thread, 16));
  for (int64_t i = 0; i < PANEL_BYTES / 16; i += PRODUCT_THREADS) {
    Value valid = whole ? Value() : e.less(e.add(place.thread, i), chunks);
    Value address = bytes(e, from, i * 16);
    copyAsync(e, bytes(e, target, i * 16), valid ? e.select(valid, address, panel.table) : address, valid);
  }
}

// Chunk c of the token rows is row 8 * (c / 64) + c % 8, columns 8 * (c / 8 % 8) and on, as in
// GemmKernels.cpp.
GroupedProduct::RowChunks GroupedProduct::rowChunks(const Unit &unit, int64_t tokens) {
  RowChunks rows;
  for (int64_t i = 0; i < std::max<int64_t>(tokens / 16, 1); ++i) {
    Value row = e.add(e.mul(e.shr(place.thread, 6), 8), e.add(e.andi(place.thread, 7), i * 16));
    Value valid = e.less(row, unit.slots);
    Value source = e.add(unit.firstSlot, e.select(valid, row, e.c(0)));
    if (unit.slotToken) {
      source = e.loadI32(unit.slotToken, source);
    }
    rows.push_back(
        {bytes(e, unit.rows, wideAdd(e, wideMul(e, source, s.rowBytes()), e.mul(chunk, 16))), valid});
  }
  return rows;
}

void GroupedProduct::loadRows(const RowChunks &rows, int64_t tokens, Value to, Value index) {
  Value target = bytes(e, to, e.mul(place.thread, 16));
  Value inside =
      columns % BLOCK_DEPTH ? e.less(e.add(e.mul(index, BLOCK_DEPTH), e.mul(chunk, 8)), columns) : Value();
  auto copy = [&] {
    for (auto [i, source] : llvm::enumerate(rows)) {
      auto [from, valid] = source;
      Value address = bytes(e, from, e.mul(index, 2 * BLOCK_DEPTH));
      if (inside) {
        address = e.select(inside, address, from);
        valid = e.both(valid, inside);
      }
      copyAsync(e, bytes(e, target, static_cast<int64_t>(i) * 2048), address, valid);
    }
  };
  if (tokens < 16) {
    e.when(e.less(place.thread, tokens * 8), copy);
  } else {
    copy();
  }
}

void GroupedProduct::run(const Unit &unit, const std::function<void()> &meanwhile, const Finish &finish) {
  Panel panels[2] = {panelAt(unit.panels.table[0], unit.panels.block[0]),
                     panelAt(unit.panels.table[1], unit.panels.block[1])};
  // The same product for several widths of the tile, the narrowest that holds the slots.
  for (int64_t tokens = 8, below = 0; tokens <= s.tokens; below = tokens, tokens *= 2) {
    Value fits = e.both(e.less(e.c(below), unit.slots), e.lessEqual(unit.slots, tokens));
    e.when(fits, [&] {
      RowChunks rows = rowChunks(unit, tokens);
      BlockShape shape{2, tokens};
      BlockProduct product(e, place, shape, columns);
      if (columns % BLOCK_DEPTH) {
        product.tail_row_blocks = columns % BLOCK_DEPTH / 8;
      }
      auto load = [&](Value stage, Value index) {
        loadPanel(panels[0], stage, index);
        loadPanel(panels[1], bytes(e, stage, PANEL_BYTES), index);
        loadRows(rows, tokens, bytes(e, stage, 2 * PANEL_BYTES), index);
      };
      Values sums = product.run(ring, shape.stages(ringBytes), load, meanwhile);
      finish(product.placeSums(sums));
    });
  }
}

// Stage 0: block 0 lists the tiles, the others bring rows into bf16.
void addPrepareStage(KernelBuilder &k, const GroupedShape &s) {
  RowThreads threads(s.depth);
  k.result.scratch = TileList::size(s);
  k.result.scratch.per_token += s.rowBytes() * rowsPerToken(s);
  GridSize x{.fixed = threads.rows(), .per_token = rowsPerToken(s), .divisor = threads.rows()};
  k.stage({.x = x, .threads = threads.block}, [&](Emitter &e, StageFrame &frame) {
    Value shared = frame.shared(threads.block / WARP * 8);
    Value listing = e.equal(e.block(0), 0);
    e.when(listing, [&] {
      RoutingPlan plan{s.experts, s.top_k, frame.binding(1)};
      emitTileList(e, plan, tileList(e, s, frame), s.tokens, threads.block, shared);
    });
    e.when(e.no(listing), [&] {
      RowSource source{.x = frame.binding(0),
                       .count = e.mul(frame.constantInt(0), rowsPerToken(s)),
                       .target = frame.scratch()};
      emitRows(e, {s.depth}, source, e.mul(e.sub(e.block(0), 1), threads.rows()), shared);
    });
  });
}

// Stage 1: the units.
void addUnitStage(KernelBuilder &k, const GroupedShape &s, unsigned firstTable, unsigned secondTable,
                  unsigned result) {
  StageShape shape{.x = {.fixed = 0, .per_token = s.top_k * s.units(), .limit = MAX_UNIT_BLOCKS},
                   .threads = PRODUCT_THREADS,
                   .min_blocks = 2};
  k.stage(shape, [&](Emitter &e, StageFrame &frame) {
    int64_t ringBytes = sharedBudget(k.target());
    GroupedProduct product(e, s, frame.shared(ringBytes, SHARED_ALIGNMENT), ringBytes);
    UnitQueue queue(e, frame);
    TileList list = tileList(e, s, frame);
    queue.run(e.mul(list.count(e), s.units()), [&](Value index) {
      Value tile = list.tile(e, e.div(index, s.units()));
      GroupedProduct::Unit unit;
      unit.panels = unitPanels(e, s, frame.binding(firstTable), frame.binding(secondTable), lane(e, tile, 0),
                               e.rem(index, s.units()));
      unit.rows = frame.scratch();
      unit.firstSlot = lane(e, tile, 1);
      unit.slots = lane(e, tile, 2);
      if (!s.down) {
        unit.slotToken = RoutingPlan{s.experts, s.top_k, frame.binding(1)}.slotToken(e);
      }
      product.run(
          unit, [&] { queue.announceNext(); },
          [&](llvm::ArrayRef<PlacedSum> sums) {
            storeUnit(e, s, unit.panels, frame.binding(result), unit.firstSlot, unit.slots, sums);
          });
    });
  });
}

void addStages(KernelBuilder &k, GroupedShape s, unsigned firstTable, unsigned secondTable, unsigned result) {
  if (k.target().chip == "sm_90a") {
    addWgmmaStages(k, s, firstTable, secondTable, result);
    return;
  }
  while (BlockShape{2, s.tokens}.stages(sharedBudget(k.target())) < 2) {
    s.tokens /= 2;
  }
  addPrepareStage(k, s);
  addUnitStage(k, s, firstTable, secondTable, result);
}

} // namespace

// x_norm, plan, gate table, up table, h; constants: T.
void emitGroupedGateUp(KernelBuilder &k) {
  k.parameters(5, 1);
  addStages(k, GroupedShape(k, /*down=*/false), 2, 3, 4);
}

// h, plan, down table, y; constants: T.
void emitGroupedDown(KernelBuilder &k) {
  k.parameters(4, 1);
  addStages(k, GroupedShape(k, /*down=*/true), 2, 2, 3);
}

} // namespace smelt::codegen::cuda
