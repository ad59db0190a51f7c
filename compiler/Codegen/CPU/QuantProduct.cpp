#include "compiler/Codegen/CPU/QuantProduct.h"

#include <algorithm>
#include <vector>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {
// Rows for which decoding in registers, once for each tile, costs less than a detour through memory.
constexpr int64_t kMostDirectRows = 2;
// Decoded weights of a chunk stay in the L1 cache, where the tiles below each other read them again.
constexpr int64_t kMostDecodedBytes = 40 * 1024;

// Tiles that decode in registers. Each panel takes three registers of scales, and seven instructions for a
// line of 4 k, so that four panels hide the latency of one row's sums.
llvm::ArrayRef<RegisterTile> directTiles(const IsaLevel &isa) {
  static const std::vector<RegisterTile> zmm = {{2, 4}, {1, 4}}, ymm = {{1, 2}};
  return isa.lanes == 16 ? zmm : ymm;
}

// Panels that are decoded into memory together, and the tiles that read them there; all powers of two.
int64_t panelsTogether(const IsaLevel &isa) { return isa.lanes == 16 ? 4 : 2; }
llvm::ArrayRef<RegisterTile> decodedTiles(const IsaLevel &isa) {
  static const std::vector<RegisterTile> zmm = {{6, 4}, {4, 4}, {2, 4}, {1, 4}},
                                         ymm = {{6, 1}, {2, 2}, {1, 2}};
  return isa.lanes == 16 ? zmm : ymm;
}
} // namespace

QuantProduct::QuantProduct(Emitter &e, const RowBlock &rows, int64_t k, int64_t matrices)
    : e(e), rows(rows), depth(k), matrices(matrices), panels(e, k),
      direct(e, rows, k, WeightType::i8, matrices, directTiles(e.isa)) {
  int64_t blockBytes = decodedPanels() * matrices * kQuantBlock * kPanelColumns * 4;
  int64_t most = std::max<int64_t>(1, kMostDecodedBytes / blockBytes);
  chunks = (blocks() + most - 1) / most;
  chunk_blocks = (blocks() + chunks - 1) / chunks;
  chunks = (blocks() + chunk_blocks - 1) / chunk_blocks; // none is empty
}

int64_t QuantProduct::decodedPanels() const { return std::max<int64_t>(1, panelsTogether(e.isa) / matrices); }

int64_t QuantProduct::decodedBytes() const {
  return decodedPanels() * matrices * chunk_blocks * kQuantBlock * kPanelColumns * 4;
}

int64_t QuantProduct::sumBytes() const {
  return chunks > 1 ? rows.capacity() * matrices * decodedPanels() * kPanelColumns * 4 : 0;
}

int64_t QuantProduct::chunkDepth(const Chunk &chunk) const {
  return chunk.last ? panels.paddedDepth() - (chunks - 1) * chunk_blocks * kQuantBlock
                    : chunk.blocks * kQuantBlock;
}

int64_t QuantProduct::scratchBytes() const {
  PanelProduct tiles(e, rows, depth, WeightType::f32, matrices, decodedTiles(e.isa));
  return decodedBytes() + sumBytes() + std::max(direct.scratchBytes(), tiles.scratchBytes());
}

void QuantProduct::run(const PanelProduct::Operands &operands, Value scratch,
                       const PanelProduct::Epilogue &epilogue) {
  e.choose(
      e.lessEqual(operands.rows, kMostDirectRows),
      [&] {
        direct.run(operands, scratch, epilogue);
        return Values();
      },
      [&] {
        runDecoded(operands, scratch, epilogue);
        return Values();
      });
}

void QuantProduct::runDecoded(const PanelProduct::Operands &operands, Value scratch,
                              const PanelProduct::Epilogue &epilogue) {
  Type byte = e.builder.getI8Type();
  Value sums = e.at(scratch, byte, decodedBytes());
  e.loop(e.c(0), operands.panels, decodedPanels(), [&](Value begin) {
    // The same product with the panels from `begin` on alone.
    PanelProduct::Operands part = operands;
    part.first = e.add(operands.first, begin);
    part.panels = e.min(e.sub(operands.panels, begin), decodedPanels());
    Value next = e.add(begin, decodedPanels());
    for (int64_t m = 0; m < matrices; ++m) {
      Value own = direct.panel(operands.matrices[m], e.add(operands.first, next));
      part.following[m] = e.select(e.less(next, operands.panels), own, operands.following[m]);
    }
    if (chunks > 1) {
      clearSums(operands.rows, sums);
      part.initial = [&](int64_t matrix, Value row, Value column) {
        return e.load(e.vec(e.f32(), e.lanes()), sumAddress(sums, matrix, row, column));
      };
      auto keep = [&](const PanelProduct::Result &result) {
        Value column = e.sub(result.column, e.mul(part.first, kPanelColumns));
        for (auto [matrix, vectors] : llvm::enumerate(result.sums)) {
          for (auto [v, sum] : llvm::enumerate(vectors)) {
            e.store(sum, sumAddress(sums, matrix, result.row, e.add(column, v * e.lanes())));
          }
        }
      };
      e.loop(e.c(0), e.c((chunks - 1) * chunk_blocks), chunk_blocks,
             [&](Value block) { multiplyChunk(part, {block, chunk_blocks, /*last=*/false}, scratch, keep); });
    }
    int64_t before = (chunks - 1) * chunk_blocks;
    multiplyChunk(part, {e.c(before), blocks() - before, /*last=*/true}, scratch, epilogue);
  });
}

void QuantProduct::multiplyChunk(const PanelProduct::Operands &operands, const Chunk &chunk, Value scratch,
                                 const PanelProduct::Epilogue &epilogue) {
  Type byte = e.builder.getI8Type();
  decode(operands, chunk, scratch);
  int64_t panelBytes = chunkDepth(chunk) * kPanelColumns * 4;
  Value base = e.mul(operands.first, kPanelColumns);
  PanelProduct::Operands decoded = operands;
  decoded.block = e.at(operands.block, e.f32(), e.mul(chunk.block, kQuantBlock));
  decoded.first = e.c(0);
  decoded.columns = e.sub(operands.columns, base);
  // Each chunk reads its share of the panels that follow.
  decoded.following_bytes = (panels.panelBytes() + chunks - 1) / chunks;
  Value share = e.mul(e.div(chunk.block, chunk_blocks), decodedPanels() * decoded.following_bytes);
  for (int64_t m = 0; m < matrices; ++m) {
    decoded.matrices[m] = e.at(scratch, byte, m * decodedPanels() * panelBytes);
    decoded.following[m] = e.at(operands.following[m], byte, share);
  }
  auto shifted = [&](const PanelProduct::Result &result) {
    PanelProduct::Result whole = result;
    whole.column = e.add(result.column, base);
    epilogue(whole);
  };
  PanelProduct product(e, rows, chunkDepth(chunk), WeightType::f32, matrices, decodedTiles(e.isa));
  product.run(decoded, e.at(scratch, byte, decodedBytes() + sumBytes()), shifted);
}

// Panel after panel, as f32 [k][16].
void QuantProduct::decode(const PanelProduct::Operands &operands, const Chunk &chunk, Value decoded) {
  int64_t panelBytes = chunkDepth(chunk) * kPanelColumns * 4;
  bool tail = chunk.last && panels.hasTail();
  Value firstK = e.mul(chunk.block, kQuantBlock);
  Value end = e.add(chunk.block, chunk.blocks - (tail ? 1 : 0));
  Type byte = e.builder.getI8Type();
  for (int64_t m = 0; m < matrices; ++m) {
    e.loop(e.c(0), operands.panels, 1, [&](Value index) {
      Value from = e.at(operands.matrices[m], byte, e.mul(e.add(operands.first, index), panels.panelBytes()));
      Value to = e.at(decoded, byte, e.mul(e.add(index, m * decodedPanels()), panelBytes));
      panels.forGroups({{from}}, chunk.block, end, tail, {},
                       [&](Value k, const QuantPanels::Weights &weights, ValueRange) {
                         Value line = e.at(to, e.f32(), e.mul(e.sub(k, firstK), kPanelColumns));
                         for (auto [v, values] : llvm::enumerate(weights[0])) {
                           for (auto [part, value] : llvm::enumerate(values)) {
                             e.store(value, e.at(line, e.f32(), part * kPanelColumns + v * e.lanes()), 32);
                           }
                         }
                         return Values();
                       });
    });
  }
}

void QuantProduct::clearSums(Value rowCount, Value sums) {
  int64_t row = matrices * decodedPanels() * kPanelColumns;
  e.loop(e.c(0), e.mul(rowCount, row), e.lanes(),
         [&](Value at) { e.store(e.splat(0.0, e.lanes()), e.at(sums, e.f32(), at)); });
}

Value QuantProduct::sumAddress(Value sums, int64_t matrix, Value row, Value column) {
  Value panel = e.add(e.mul(row, matrices * decodedPanels()), matrix * decodedPanels());
  return e.at(sums, e.f32(), e.add(e.mul(panel, kPanelColumns), column));
}

} // namespace smelt::codegen::cpu
