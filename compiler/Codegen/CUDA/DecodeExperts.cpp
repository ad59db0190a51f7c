// The experts of short steps: one output of one (token, choice) after another, each by a few warps, no
// sorting and no atomics.
#include "compiler/Codegen/CUDA/DecodeLinear.h"
#include "compiler/Codegen/CUDA/DecodeTiles.h"
#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <algorithm>

namespace smelt::codegen::cuda {

namespace {

// Shared memory for activations that leaves room for a second block, and what every target has for one.
constexpr int64_t SHARED_BYTES = 48 << 10, MOST_SHARED_BYTES = 96 << 10;

// Whether rows of so many activations fit; says so if not.
bool fits(KernelBuilder &kernel, const char *what, int64_t columns) {
  int64_t bytes = 4 * roundUp(paddedColumns(columns), UNIT_COLUMNS);
  if (bytes > MOST_SHARED_BYTES) {
    kernel.fail(std::string(what) + " = " + std::to_string(columns) + " is more than the " +
                std::to_string(MOST_SHARED_BYTES / 4) + " a short step can hold");
  }
  return bytes <= MOST_SHARED_BYTES;
}

// First byte of an expert's matrix.
Value expertMatrix(Emitter &e, Value table, Value expert, int64_t rows, int64_t columns) {
  return e.row(table, e.builder.getI8Type(), expert, expertStride(rows, columns));
}

} // namespace

namespace {

// Of a block. Only measurements of the choice force another (tests/gpu).
int64_t gateUpWarps(const KernelBuilder &kernel) { return kernel.has("warps") ? kernel.param("warps") : 4; }

// 8 features of one (token, choice), the warps of a block each a share of the columns of both matrices.
void emitFeatures(Emitter &e, StageFrame &frame, const KernelBuilder &kernel, Value slot) {
  int64_t warps = gateUpWarps(kernel), threads = warps * WARP;
  int64_t hidden = kernel.param("hidden"), features = kernel.param("expert_hidden");
  Value blockRow = e.block(0), warp = e.warp();
  Value expert = e.readI32(frame.binding(1), slot);
  TileRows tiles(e, features, hidden, blockRow);
  Value x = frame.shared(4 * tiles.stagedColumns());
  Value parts = frame.shared(4 * warps * 2 * BLOCK_ROWS);
  // Issued while the expert's number is on its way.
  Value token = e.div(slot, kernel.param("top_k"));
  RowCopy copy(e, e.row(frame.binding(0), e.f32(), token, hidden), x, hidden, tiles.stagedColumns(),
               e.thread(), threads);
  Values matrices = {expertMatrix(e, frame.binding(2), expert, features, hidden),
                     expertMatrix(e, frame.binding(3), expert, features, hidden)};
  Values sums = tiles.multiply(matrices, x, warp, warps, [&] {
    copy.finish();
    e.barrier();
  });
  Value mine = e.row(parts, e.f32(), warp, 2 * BLOCK_ROWS);
  Value gate = tiles.reduce(sums[0]), up = tiles.reduce(sums[1]);
  e.when(e.less(e.lane(), BLOCK_ROWS), [&] {
    e.storeF32(gate, mine, e.lane());
    e.storeF32(up, mine, e.add(e.lane(), BLOCK_ROWS));
  });
  e.barrier();
  Value feature = e.add(e.mul(blockRow, BLOCK_ROWS), e.thread());
  e.when(e.both(e.less(e.thread(), BLOCK_ROWS), e.less(feature, features)), [&] {
    Value totals[2] = {e.f(0), e.f(0)};
    for (int64_t w = 0; w < warps; ++w) {
      for (int64_t m = 0; m < 2; ++m) {
        Value part = e.loadF32(parts, e.add(e.thread(), (2 * w + m) * BLOCK_ROWS));
        totals[m] = e.addf(totals[m], part);
      }
    }
    e.storeF32(e.mulf(e.silu(totals[0]), totals[1]), e.row(frame.binding(4), e.f32(), slot, features),
               feature);
  });
}

} // namespace

// The last projection of shared experts is further blocks, in rows of the grid before those of the choices.
void emitExpertsGateUpDirect(KernelBuilder &kernel) {
  int64_t hidden = kernel.param("hidden"), width = kernel.has("shared") ? kernel.param("shared") : 0;
  if (!fits(kernel, "hidden", hidden)) {
    return;
  }
  int64_t blocks = paddedRows(kernel.param("expert_hidden")) / BLOCK_ROWS; // of a choice
  LinearResidual shared(std::max<int64_t>(width, 1), hidden, 1);
  int64_t sharedRows = width ? (shared.blocks() + blocks - 1) / blocks : 0;
  kernel.parameters(width ? 9 : 5, width ? 2 : 1);
  StageShape launch{.x = {.fixed = blocks},
                    .y = {.fixed = sharedRows, .per_token = kernel.param("top_k")},
                    .threads = gateUpWarps(kernel) * WARP,
                    .min_blocks = (width ? 16 : 20) / gateUpWarps(kernel)};
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) {
    if (!width) {
      emitFeatures(e, frame, kernel, e.block(1));
      return;
    }
    Value y = e.block(1);
    int64_t mark = frame.mark();
    e.choose(
        e.less(y, sharedRows),
        [&] {
          Value block = e.add(e.mul(y, blocks), e.block(0));
          e.when(e.less(block, shared.blocks()), [&] {
            shared.emit(e, frame, block,
                        {.x = frame.binding(5),
                         .weight = frame.binding(6),
                         .xIn = frame.binding(7),
                         .xOut = frame.binding(8),
                         .scale = frame.constantFloat(1)});
          });
          return Values();
        },
        [&] {
          frame.release(mark); // no block is of both kinds
          emitFeatures(e, frame, kernel, e.sub(y, sharedRows));
          return Values();
        });
  });
}

namespace {

// How the warps of a block share the choices of a token.
struct ChoiceSplit {
  // `rowBytes`: of the activations of a choice in shared memory.
  ChoiceSplit(int64_t topK, int64_t rowBytes) {
    constexpr int64_t fewWarps = 8, mostWarps = 16;
    atOnce = std::clamp<int64_t>(SHARED_BYTES / rowBytes, 1, std::min(topK, mostWarps));
    splits = std::max<int64_t>(1, fewWarps / atOnce);
    rounds = (topK + atOnce - 1) / atOnce;
  }
  int64_t warps() const { return splits * atOnce; }
  int64_t splits; // warps that share the columns of one choice
  int64_t atOnce; // choices in work at the same time
  int64_t rounds;
};

} // namespace

// A block makes 8 outputs of one token, over all its choices at once.
void emitExpertsDownResidual(KernelBuilder &kernel) {
  int64_t hidden = kernel.param("hidden"), features = kernel.param("expert_hidden");
  int64_t topK = kernel.param("top_k");
  if (!fits(kernel, "expert_hidden", features)) {
    return;
  }
  ChoiceSplit split(topK, 4 * roundUp(paddedColumns(features), UNIT_COLUMNS));
  int64_t threads = split.warps() * WARP;
  kernel.parameters(6, 2);
  StageShape launch{.x = {.fixed = paddedRows(hidden), .divisor = BLOCK_ROWS},
                    .y = {.fixed = 0, .per_token = 1},
                    .threads = threads,
                    .min_blocks = std::max<int64_t>(1, 16 / split.warps())};
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) {
    Value token = e.block(1), blockRow = e.block(0), warp = e.warp();
    Value part = e.rem(warp, split.splits), choiceInRound = e.div(warp, split.splits);
    TileRows tiles(e, hidden, features, blockRow);
    int64_t staged = tiles.stagedColumns();
    Value activations = frame.shared(4 * split.atOnce * staged);
    Value parts = frame.shared(4 * split.warps() * BLOCK_ROWS);
    Value indices = e.row(frame.binding(1), e.i32(), token, topK);
    Value weights = e.row(frame.binding(2), e.f32(), token, topK);
    // What the end needs, early: nobody but this block touches these elements, so idle threads read them too.
    Value row = e.add(e.mul(blockRow, BLOCK_ROWS), e.min(e.thread(), BLOCK_ROWS - 1));
    Value writes = e.both(e.less(e.thread(), BLOCK_ROWS), e.less(row, hidden));
    Value before = e.loadF32(e.row(frame.binding(4), e.f32(), token, hidden), e.min(row, hidden - 1));

    Value sum = e.f(0);
    for (int64_t round = 0; round < split.rounds; ++round) {
      Value choice = e.add(choiceInRound, round * split.atOnce);
      bool ragged = (round + 1) * split.atOnce > topK;
      Value safe = ragged ? e.min(choice, topK - 1) : choice;
      Value expert = e.readI32(indices, safe), weight = e.readF32(weights, safe);
      if (ragged) {
        weight = e.select(e.less(choice, topK), weight, e.f(0));
      }
      Value matrix = expertMatrix(e, frame.binding(3), expert, hidden, features);
      if (round > 0) {
        e.barrier(); // the activations of the round before have been read
      }
      Value x = e.row(activations, e.f32(), choiceInRound, staged);
      // Every group of warps brings the activations of its own choice.
      Value h = e.row(frame.binding(0), e.f32(), e.add(e.mul(token, topK), safe), features);
      Value member = e.add(e.mul(part, WARP), e.lane());
      RowCopy copy(e, h, x, features, staged, member, split.splits * WARP);
      Values sums = tiles.multiply(matrix, x, part, split.splits, [&] {
        copy.finish();
        e.barrier();
      });
      sum = e.fma(weight, sums[0], sum);
    }
    Value total = tiles.reduce(sum);
    Value mine = e.row(parts, e.f32(), warp, BLOCK_ROWS);
    e.when(e.less(e.lane(), BLOCK_ROWS), [&] { e.storeF32(total, mine, e.lane()); });
    e.barrier();
    e.when(writes, [&] {
      Value result = e.f(0);
      for (int64_t w = 0; w < split.warps(); ++w) {
        result = e.addf(result, e.loadF32(parts, e.add(e.thread(), w * BLOCK_ROWS)));
      }
      Value xOut = e.row(frame.binding(5), e.f32(), token, hidden);
      e.storeF32(e.fma(result, frame.constantFloat(1), before), xOut, row);
    });
  });
}

} // namespace smelt::codegen::cuda
