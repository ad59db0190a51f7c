// experts_gate_up and experts_down of many tokens on sm_90a: wgmma on shared memory that one warp fills by
// cp.async.bulk, several stages ahead and across units of work, while four warps multiply.
//
// All that wgmma reads comes by bulk copies of bytes that already have the order it wants (8 x 8 blocks of
// 128 bytes, no swizzle): weights in layout `tiles`, and token rows that a stage of their own packs into
// groups of 8 rows of one expert. So no thread computes addresses of elements, and the loop needs no fence
// between proxies.
#include "compiler/Codegen/CUDA/GroupedPlan.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t CONSUMERS = 128; // one warpgroup
constexpr int64_t THREADS = CONSUMERS + WARP;
constexpr int64_t LIST_THREADS = 256;
constexpr int64_t PACK_THREADS = 128;
constexpr int64_t GROUP_ROWS = 8;
constexpr int64_t GROUP_STAGE_BYTES = GROUP_ROWS * BLOCK_DEPTH * 2; // of a group of rows, in one stage
constexpr int64_t STAGES = 3;
constexpr int32_t NO_UNIT = -1;
constexpr int CLUSTER_SPACE = 7; // shared memory of a cluster

// Scratch: packed rows, then the list of tiles. A group of 8 rows is contiguous: 8 x 8 blocks by columns.
int64_t groupBytes(const GroupedShape &s) { return GROUP_ROWS * s.rowBytes(); }
TileList tileList(Emitter &e, const GroupedShape &s, StageFrame &frame) {
  // Every expert may leave a group partly empty.
  Value rows = wideAdd(e, wideMul(e, frame.constantInt(0), s.top_k), e.c64(GROUP_ROWS * s.experts));
  return {bytes(e, frame.scratch(), e.mul(rows, s.rowBytes()))};
}
ScratchSize scratchSize(const GroupedShape &s) {
  ScratchSize size = TileList::size(s);
  size.bytes += s.rowBytes() * GROUP_ROWS * s.experts;
  size.per_token += s.rowBytes() * s.top_k;
  return size;
}

// Stage 1: a warp a group of rows at a time. Lane l takes row l % 8 and every fourth chunk of 8 columns, so
// that 8 lanes write the 128 bytes of a block.
void emitPack(Emitter &e, StageFrame &frame, const GroupedShape &s) {
  constexpr int64_t groups = 16; // of a tile, at most
  ThreadPlace place(e);
  TileList list = tileList(e, s, frame);
  RoutingPlan plan{s.experts, s.top_k, frame.binding(1)};
  int64_t lanes = rowVector(s.depth);
  Value rowInGroup = e.andi(place.lane, 7), firstChunk = e.shr(place.lane, 3);
  Value begin = e.add(e.mul(e.block(0), PACK_THREADS / WARP), place.warp);
  Value step = e.mul(e.blocks(0), PACK_THREADS / WARP);
  e.loop(begin, e.mul(list.count(e), groups), step, [&](Value index) {
    Value tile = list.tile(e, e.div(index, groups)), group = e.rem(index, groups);
    Value row = e.add(e.mul(group, GROUP_ROWS), rowInGroup), slots = lane(e, tile, 2);
    Value present = e.less(row, slots);
    Value slot = e.add(lane(e, tile, 1), e.select(present, row, e.c(0)));
    Value source = s.down ? slot : e.loadI32(plan.slotToken(e), slot);
    Value from = e.row(frame.binding(0), e.f32(), source, s.depth);
    Value packed = e.add(e.div(lane(e, tile, 3), GROUP_ROWS), group);
    Value to =
        bytes(e, frame.scratch(), wideAdd(e, wideMul(e, packed, groupBytes(s)), e.mul(rowInGroup, 16)));
    e.when(e.less(e.mul(group, GROUP_ROWS), slots), [&] {
      e.loop(firstChunk, e.c(paddedColumns(s.depth) / 8), 4, [&](Value chunk) {
        Values words, values;
        for (int64_t i = 0; i < 8; i += lanes) {
          Value column = e.add(e.mul(chunk, 8), i);
          Value inside = e.both(present, e.less(column, s.depth));
          Value address = e.at(from, e.f32(), e.select(inside, column, e.c(0)));
          Value loaded = e.loadReadOnly(vectorType(e, e.f32(), lanes), address, 4 * lanes);
          for (int64_t j = 0; j < lanes; ++j) {
            values.push_back(e.select(inside, lane(e, loaded, j), e.f(0.0)));
          }
        }
        for (int64_t i = 0; i < 8; i += 2) {
          words.push_back(e.packBf16(values[i], values[i + 1]));
        }
        e.store(e.vectorOf(words), bytes(e, to, e.mul(chunk, 128)), 16);
      });
    });
  });
}

void wait(Emitter &e, Value barrier, Value parity) {
  NVVM::MBarrierTryWaitParityOp::create(e.builder, e.loc, barrier, parity, e.c(10000000));
}
void arrive(Emitter &e, Value barrier) {
  NVVM::MBarrierArriveOp::create(e.builder, e.loc, e.i64(), barrier, Value());
}
void copyBulk(Emitter &e, Value shared, Value global, Value size, Value barrier) {
  // The instruction for the shared memory of a cluster, where a block's own addresses hold as well; the one
  // for that of a block needs a newer PTX. An addrspacecast would go by way of generic addresses.
  Value address = LLVM::PtrToIntOp::create(e.builder, e.loc, e.i64(), shared);
  shared = LLVM::IntToPtrOp::create(e.builder, e.loc, e.ptr(CLUSTER_SPACE), address);
  NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(e.builder, e.loc, shared, global, barrier, size, Value(),
                                                   Value());
}

// Position in the ring: stage, and parity of the rounds made.
struct Cursor {
  Value stage, parity;
  Cursor advanced(Emitter &e, int64_t count) const {
    Value next = e.add(stage, count);
    return {e.rem(next, STAGES), e.andi(e.xori(parity, e.div(next, STAGES)), 1)};
  }
};

// Stage 2. The producer announces a unit in the first of its stages.
class WgmmaKernel {
public:
  WgmmaKernel(Emitter &e, StageFrame &frame, const GroupedShape &s)
      : e(e), frame(frame), s(s), place(e), columns(paddedColumns(s.depth)), list(tileList(e, s, frame)) {
    ring = frame.shared(STAGES * stageBytes(), SHARED_ALIGNMENT);
    fullBarriers = frame.shared(8 * STAGES, 8);
    emptyBarriers = frame.shared(8 * STAGES, 8);
    announced = frame.shared(4 * STAGES);
  }
  void emit(Value firstTable, Value secondTable, Value out);

private:
  int64_t stageBytes() const { return 2 * PANEL_BYTES + s.tokens * BLOCK_DEPTH * 2; }
  int64_t stageCount() const { return (columns + BLOCK_DEPTH - 1) / BLOCK_DEPTH; }
  int64_t tail() const { return columns % BLOCK_DEPTH; } // columns of a partial last stage
  Value stageAt(Value index) { return bytes(e, ring, e.mul(index, stageBytes())); }
  Value full(Value stage) { return bytes(e, fullBarriers, e.mul(stage, 8)); }
  Value empty(Value stage) { return bytes(e, emptyBarriers, e.mul(stage, 8)); }

  struct Unit {
    UnitPanels panels;
    Value firstSlot, slots, firstGroup;
  };
  Unit unitOf(Value index);
  void prepareRing();
  void produce();
  Cursor produceUnit(const Unit &unit, Value index, Cursor at);
  void consume();
  void consumeUnit(const Unit &unit, Cursor at);
  Values multiplyStage(Cursor at, ValueRange sums, int64_t tokens, int64_t steps, int64_t rowBlocks);

  Emitter &e;
  StageFrame &frame;
  const GroupedShape &s;
  ThreadPlace place;
  int64_t columns;
  TileList list;
  Value ring, fullBarriers, emptyBarriers, announced;
  Value firstTable, secondTable, out;
};

WgmmaKernel::Unit WgmmaKernel::unitOf(Value index) {
  Value tile = list.tile(e, e.div(index, s.units()));
  return {unitPanels(e, s, firstTable, secondTable, lane(e, tile, 0), e.rem(index, s.units())),
          lane(e, tile, 1), lane(e, tile, 2), e.div(lane(e, tile, 3), GROUP_ROWS)};
}

// Barriers, and zeros where ragged tiles and missing rows will leave what was there before: those products
// are never stored, but shared memory should not be read before it is written.
void WgmmaKernel::prepareRing() {
  e.when(e.equal(place.thread, 0), [&] {
    for (int64_t stage = 0; stage < STAGES; ++stage) {
      NVVM::MBarrierInitOp::create(e.builder, e.loc, full(e.c(stage)), e.c(1), Value());
      NVVM::MBarrierInitOp::create(e.builder, e.loc, empty(e.c(stage)), e.c(CONSUMERS), Value());
    }
    NVVM::FenceMbarrierInitOp::create(e.builder, e.loc);
  });
  Value zeros = e.vectorOf(Values(4, e.c(0)));
  e.loop(e.mul(place.thread, 16), e.c(STAGES * stageBytes()), THREADS * 16,
         [&](Value offset) { e.store(zeros, bytes(e, ring, offset), 16); });
  NVVM::FenceProxyOp::create(
      e.builder, e.loc, NVVM::ProxyKind::async_shared,
      NVVM::SharedSpaceAttr::get(e.builder.getContext(), NVVM::SharedSpace::shared_cta));
  e.barrier();
}

void WgmmaKernel::emit(Value first, Value second, Value result) {
  firstTable = first;
  secondTable = second;
  out = result;
  prepareRing();
  Value consumer = e.less(place.thread, CONSUMERS);
  e.when(consumer, [&] { consume(); });
  e.when(e.no(consumer), [&] { produce(); });
}

void WgmmaKernel::produce() {
  Value leader = e.equal(place.lane, 0);
  auto take = [&] {
    Value unit =
        e.choose(leader, [&] { return Values{takeUnit(e, frame)}; }, [&] { return Values{e.c(0)}; })[0];
    return e.shuffleFrom(unit, e.c(0));
  };
  Value count = e.mul(list.count(e), s.units());
  Values end = whileLoop(
      e, {take(), e.c(0), e.c(0)}, [&](ValueRange carried) { return e.less(carried[0], count); },
      [&](ValueRange carried) {
        Cursor next = produceUnit(unitOf(carried[0]), carried[0], {carried[1], carried[2]});
        return Values{take(), next.stage, next.parity};
      });
  wait(e, empty(end[1]), e.xori(end[2], 1));
  e.when(leader, [&] {
    e.store(e.c(NO_UNIT), e.at(announced, e.i32(), end[1]), 4);
    arrive(e, full(end[1]));
    finishUnits(e, frame);
  });
}

Cursor WgmmaKernel::produceUnit(const Unit &unit, Value index, Cursor start) {
  Value leader = e.equal(place.lane, 0), groups = e.ceilDiv(unit.slots, GROUP_ROWS);
  Value rows[2], tiles[2];
  for (int p = 0; p < 2; ++p) {
    Value before = e.mul(unit.panels.block[p], TILE);
    rows[p] = e.max(e.min(e.sub(e.c(paddedRows(s.rows)), before), TILE), 0);
    tiles[p] = bytes(e, unit.panels.table[p], wideMul(e, before, 2 * columns));
  }
  Value group = e.min(place.lane, e.sub(groups, 1)); // lanes 0 to 15 copy one group each
  Value from = bytes(e, frame.scratch(), wideMul(e, e.add(unit.firstGroup, group), groupBytes(s)));
  Values end = e.loop(
      e.c(0), e.c(stageCount()), e.c(1), {start.stage, start.parity}, [&](Value k, ValueRange carried) {
        Cursor at{carried[0], carried[1]};
        wait(e, empty(at.stage), e.xori(at.parity, 1));
        Value stage = stageAt(at.stage), barrier = full(at.stage);
        Value width =
            tail() ? e.select(e.equal(k, stageCount() - 1), e.c(tail()), e.c(BLOCK_DEPTH)) : e.c(BLOCK_DEPTH);
        e.when(leader, [&] {
          e.when(e.equal(k, 0), [&] { e.store(index, e.at(announced, e.i32(), at.stage), 4); });
          Value panelRows = e.add(rows[0], rows[1]), tokenRows = e.mul(groups, GROUP_ROWS);
          Value expected = e.mul(e.mul(e.add(panelRows, tokenRows), width), 2);
          NVVM::MBarrierArriveExpectTxOp::create(e.builder, e.loc, Type(), barrier, expected,
                                                 NVVM::MemScopeKind::CTA,
                                                 /*relaxed=*/false, Value());
          for (int p = 0; p < 2; ++p) {
            auto copy = [&] {
              Value tile = bytes(e, tiles[p], wideMul(e, k, e.mul(rows[p], 2 * BLOCK_DEPTH)));
              copyBulk(e, bytes(e, stage, p * PANEL_BYTES), tile, e.mul(e.mul(rows[p], width), 2), barrier);
            };
            if (p == 1 && s.down) {
              e.when(e.less(e.c(0), rows[p]), copy); // the last unit may have one block alone
            } else {
              copy();
            }
          }
        });
        e.warpBarrier(); // what is expected comes before what arrives
        e.when(e.less(place.lane, groups), [&] {
          Value to = bytes(e, stage, e.add(e.mul(place.lane, GROUP_STAGE_BYTES), 2 * PANEL_BYTES));
          copyBulk(e, to, bytes(e, from, e.mul(k, GROUP_STAGE_BYTES)), e.mul(width, 2 * GROUP_ROWS), barrier);
        });
        Cursor next = at.advanced(e, 1);
        return Values{next.stage, next.parity};
      });
  return {end[0], end[1]};
}

void WgmmaKernel::consume() {
  auto announcedAt = [&](Cursor at) {
    wait(e, full(at.stage), at.parity);
    return e.loadI32(announced, at.stage);
  };
  Cursor first{e.c(0), e.c(0)};
  whileLoop(
      e, {announcedAt(first), first.stage, first.parity},
      [&](ValueRange carried) { return e.less(e.c(NO_UNIT), carried[0]); },
      [&](ValueRange carried) {
        Cursor at{carried[1], carried[2]};
        consumeUnit(unitOf(carried[0]), at);
        Cursor next = at.advanced(e, stageCount());
        return Values{announcedAt(next), next.stage, next.parity};
      });
}

// Descriptor of an operand in shared memory without swizzle: 8 x 8 blocks 128 bytes apart along k and
// `rowBlock` bytes apart along rows.
Value descriptor(Emitter &e, Value address, int64_t rowBlock) {
  Value start = LLVM::PtrToIntOp::create(e.builder, e.loc, e.i32(), address);
  Value field = e.andi(e.shr(start, 4), 0x3fff);
  int64_t strides = (int64_t{128 >> 4} << 16) | ((rowBlock >> 4) << 32);
  return e.ori(e.widen(field), e.c64(strides));
}

Value multiply(Emitter &e, Value sums, Value a, Value b, int64_t tokens) {
  MLIRContext *context = e.builder.getContext();
  return NVVM::WgmmaMmaAsyncOp::create(
      e.builder, e.loc, sums.getType(), sums, a, b, NVVM::MMAShapeAttr::get(context, 64, tokens, 16),
      NVVM::WGMMATypes::bf16, NVVM::WGMMATypes::bf16, NVVM::WGMMATypes::f32, NVVM::WGMMAScaleOut::one,
      NVVM::WGMMAScaleIn::one, NVVM::WGMMAScaleIn::one, NVVM::MMALayout::row, NVVM::MMALayout::col,
      NVVM::MMAIntOverflowAttr());
}

Values WgmmaKernel::multiplyStage(Cursor at, ValueRange carried, int64_t tokens, int64_t steps,
                                  int64_t rowBlocks) {
  Values sums(carried);
  wait(e, full(at.stage), at.parity);
  Value stage = stageAt(at.stage);
  NVVM::WgmmaFenceAlignedOp::create(e.builder, e.loc);
  for (int64_t step = 0; step < steps; ++step) {
    Value rows = descriptor(e, bytes(e, stage, 2 * PANEL_BYTES + step * 256), GROUP_STAGE_BYTES);
    for (int64_t p = 0; p < 2; ++p) {
      Value weights = descriptor(e, bytes(e, stage, p * PANEL_BYTES + step * 256), rowBlocks * 128);
      sums[p] = multiply(e, sums[p], weights, rows, tokens);
    }
  }
  NVVM::WgmmaGroupSyncAlignedOp::create(e.builder, e.loc);
  NVVM::WgmmaWaitGroupSyncOp::create(e.builder, e.loc, uint64_t{0});
  arrive(e, empty(at.stage));
  return sums;
}

void WgmmaKernel::consumeUnit(const Unit &unit, Cursor start) {
  for (int64_t tokens = 8, below = 0; tokens <= s.tokens; below = tokens, tokens *= 2) {
    Value fits = e.both(e.less(e.c(below), unit.slots), e.lessEqual(unit.slots, tokens));
    e.when(fits, [&] {
      int64_t held = tokens / 2; // sums of a thread and panel
      Type type =
          LLVM::LLVMStructType::getLiteral(e.builder.getContext(), llvm::SmallVector<Type>(held, e.f32()));
      Value zeros = LLVM::UndefOp::create(e.builder, e.loc, type);
      for (int64_t i = 0; i < held; ++i) {
        zeros = LLVM::InsertValueOp::create(e.builder, e.loc, zeros, e.f(0.0), i);
      }
      int64_t whole = stageCount() - (tail() ? 1 : 0);
      Values state = e.loop(e.c(0), e.c(whole), e.c(1), {zeros, zeros, start.stage, start.parity},
                            [&](Value, ValueRange carried) {
                              Cursor at{carried[2], carried[3]};
                              Values sums =
                                  multiplyStage(at, carried.take_front(2), tokens, BLOCK_DEPTH / 16, 8);
                              Cursor next = at.advanced(e, 1);
                              sums.append({next.stage, next.parity});
                              return sums;
                            });
      Values sums = {state[0], state[1]};
      if (tail() && whole) {
        sums = multiplyStage({state[2], state[3]}, sums, tokens, tail() / 16, tail() / 8);
      } else if (tail()) {
        // ptxas adds waits of its own unless the sums come round a loop; LLVM must not see that it is none.
        Value once = e.asmPtx("mov.b32 $0, 1;", "=r", {}, {e.i32()})[0];
        sums = e.loop(e.c(0), once, e.c(1), sums, [&](Value, ValueRange carried) {
          return multiplyStage(start, carried, tokens, tail() / 16, tail() / 8);
        });
      }
      llvm::SmallVector<PlacedSum> placed;
      for (int64_t i = 0; i < held; ++i) {
        Value row = e.add(e.add(e.mul(place.warp, 16), place.group), i / 2 % 2 * 8);
        Value token = e.add(e.mul(place.quad, 2), i / 4 * 8 + i % 2);
        placed.push_back({row,
                          token,
                          {LLVM::ExtractValueOp::create(e.builder, e.loc, sums[0], i),
                           LLVM::ExtractValueOp::create(e.builder, e.loc, sums[1], i)}});
      }
      storeUnit(e, s, unit.panels, out, unit.firstSlot, unit.slots, placed);
    });
  }
}

} // namespace

void addWgmmaStages(KernelBuilder &k, const GroupedShape &s, unsigned firstTable, unsigned secondTable,
                    unsigned result) {
  k.result.scratch = scratchSize(s);
  k.stage({.threads = LIST_THREADS}, [&](Emitter &e, StageFrame &frame) {
    RoutingPlan plan{s.experts, s.top_k, frame.binding(1)};
    emitTileList(e, plan, tileList(e, s, frame), s.tokens, LIST_THREADS,
                 frame.shared(LIST_THREADS / WARP * 8));
  });
  StageShape pack{.x = {.fixed = 0, .per_token = 4 * s.top_k, .limit = 4 * MAX_UNIT_BLOCKS},
                  .threads = PACK_THREADS};
  k.stage(pack, [&](Emitter &e, StageFrame &frame) { emitPack(e, frame, s); });
  StageShape units{.x = {.fixed = 0, .per_token = s.top_k * s.units(), .limit = MAX_UNIT_BLOCKS},
                   .threads = THREADS,
                   .min_blocks = 2};
  k.stage(units, [&](Emitter &e, StageFrame &frame) {
    WgmmaKernel(e, frame, s)
        .emit(frame.binding(firstTable), frame.binding(secondTable), frame.binding(result));
  });
}

} // namespace smelt::codegen::cuda
