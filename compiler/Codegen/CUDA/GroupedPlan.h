// What the grouped products share: their shapes, the list of tiles of slots, the queue of units of work.
#pragma once

#include "compiler/Codegen/CUDA/GemmCore.h"
#include "compiler/Codegen/CUDA/PrefillRows.h"

namespace smelt::codegen::cuda {

// What the two roles fix at compile time. A unit of work is a tile of slots of one expert and two panels of
// 64 weight rows: the same rows of gate and up, or two blocks of down's one matrix.
struct GroupedShape {
  GroupedShape(const KernelBuilder &k, bool down)
      : experts(k.param("experts")), top_k(k.param("top_k")), down(down),
        rows(down ? k.param("hidden") : k.param("expert_hidden")),
        depth(down ? k.param("expert_hidden") : k.param("hidden")) {}

  int64_t units() const { // of a tile
    int64_t blocks = (rows + PANEL_ROWS - 1) / PANEL_ROWS;
    return down ? (blocks + 1) / 2 : blocks;
  }
  int64_t rowBytes() const { return 2 * paddedColumns(depth); } // of an activation, bf16
  bool ragged() const {
    return paddedRows(rows) % TILE != 0 || (down && units() * 2 * TILE != paddedRows(rows));
  }

  int64_t experts, top_k;
  bool down;
  int64_t rows, depth;  // of one expert's matrix
  int64_t tokens = 128; // slots of a tile, at most
};

// A tile of the list: i32 expert, first slot, slots, row of the first slot among rows padded to multiples of
// 8 an expert.
constexpr int64_t TILE_BYTES = 16;

// The list in scratch, behind `before` bytes: the number of tiles (16 bytes), then the tiles.
struct TileList {
  Value base;
  Value count(Emitter &e) const { return e.load(e.i32(), base, 4); }
  // Vector of four i32.
  Value tile(Emitter &e, Value index) const {
    return e.load(vectorType(e, e.i32(), 4), bytes(e, base, wideMul(e, e.add(index, 1), TILE_BYTES)), 16);
  }
  // Every expert's last tile may be partial; all others are full.
  static ScratchSize size(const GroupedShape &s) {
    return {.bytes = TILE_BYTES * (s.experts + 2),
            .per_token = roundUp(TILE_BYTES * s.top_k, s.tokens) / s.tokens};
  }
};

// Fills the list, as one block of `threads`. An expert's slots are split evenly: 130 slots are better two
// tiles of 72 and 58 than of 128 and 2. `shared` has room for threads / 16 words.
void emitTileList(Emitter &e, const RoutingPlan &plan, const TileList &list, int64_t maxTokens,
                  int64_t threads, Value shared);

// Two panels of weights: expert's matrices and their blocks of 64 rows.
struct UnitPanels {
  Value table[2], block[2];
};
UnitPanels unitPanels(Emitter &e, const GroupedShape &s, Value firstTable, Value secondTable, Value expert,
                      Value block);

// Stores the sums of a unit: SwiGLU of the two panels, or both as they are.
void storeUnit(Emitter &e, const GroupedShape &s, const UnitPanels &panels, Value out, Value firstSlot,
               Value slots, llvm::ArrayRef<PlacedSum> sums);

// Blocks that take units in turn: two for every multiprocessor of the largest GPU; what does not fit at once
// finds nothing left to do.
constexpr int64_t MAX_UNIT_BLOCKS = 296;

// Units by counter: ticket 0 counts units taken, ticket 1 blocks that found none left; the last of those
// leaves both zero again. One thread of a block calls these.
Value takeUnit(Emitter &e, StageFrame &frame);
void finishUnits(Emitter &e, StageFrame &frame);

// GroupedWgmma.cpp: the stages on sm_90a; bindings of the tables and the result.
void addWgmmaStages(KernelBuilder &k, const GroupedShape &s, unsigned firstTable, unsigned secondTable,
                    unsigned result);

} // namespace smelt::codegen::cuda
