#include "compiler/Codegen/CUDA/GemmCore.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace smelt::codegen::cuda {

Values loadMatrices(Emitter &e, Value address, int count, bool transpose) {
  MLIRContext *context = e.builder.getContext();
  Type type = count == 1 ? e.i32()
                         : LLVM::LLVMStructType::getLiteral(context, llvm::SmallVector<Type>(count, e.i32()));
  // Layout col is ldmatrix.trans.
  Value loaded = NVVM::LdMatrixOp::create(
      e.builder, e.loc, type, address, count, transpose ? NVVM::MMALayout::col : NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(context, 8, 8), NVVM::LdStMatrixEltType::B16);
  if (count == 1) {
    return {loaded};
  }
  Values words;
  for (int i = 0; i < count; ++i) {
    words.push_back(LLVM::ExtractValueOp::create(e.builder, e.loc, loaded, i));
  }
  return words;
}

Values multiplyAdd(Emitter &e, ValueRange a, ValueRange b, ValueRange c) {
  Type result = LLVM::LLVMStructType::getLiteral(e.builder.getContext(), llvm::SmallVector<Type>(4, e.f32()));
  Value d = NVVM::MmaOp::create(e.builder, e.loc, result, a, b, c, {16, 8, 16}, std::nullopt, std::nullopt,
                                std::array{NVVM::MMATypes::bf16, NVVM::MMATypes::bf16},
                                std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
  Values sums;
  for (int i = 0; i < 4; ++i) {
    sums.push_back(LLVM::ExtractValueOp::create(e.builder, e.loc, d, i));
  }
  return sums;
}

void copyAsync(Emitter &e, Value shared, Value global, Value valid) {
  Value size = valid ? e.select(valid, e.c(16), e.c(0)) : Value();
  NVVM::CpAsyncOp::create(e.builder, e.loc, shared, global, 16, NVVM::LoadCacheModifierKind::CG, size);
}

void commitCopies(Emitter &e) { NVVM::CpAsyncCommitGroupOp::create(e.builder, e.loc); }

void waitForCopies(Emitter &e, int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(e.builder, e.loc, static_cast<uint32_t>(pending));
}

Value BlockProduct::warpM() { return shape.warpsN() == 2 ? e.andi(place.warp, 1) : place.warp; }

Value BlockProduct::warpN() { return shape.warpsN() == 2 ? e.shr(place.warp, 1) : e.c(0); }

Values BlockProduct::multiplyStage(Value stage, ValueRange carried, int64_t steps, int64_t rowBlocks) {
  Values sums(carried);
  Value matrix = e.shr(place.lane, 3), line = e.mul(e.andi(place.lane, 7), 16);
  Value low = e.andi(matrix, 1), high = e.shr(matrix, 1);
  // Weights, 16 x 16: matrices are (rows 0-7, k 0-7), (rows 8-15, k 0-7), (rows 0-7, k 8-15), (rows 8-15, k
  // 8-15). Tokens, two of 8 x 16: (tokens 0-7, k 0-7), (tokens 0-7, k 8-15), then tokens 8-15.
  Value weightLane = e.add(e.mul(e.add(e.mul(low, rowBlocks), high), 128), line);
  Value tokenLane = e.add(e.mul(e.add(e.mul(high, 8), low), 128), line);
  int64_t tilesM = shape.tilesM(), tilesN = shape.tilesN();
  Value weights = e.add(e.mul(warpM(), (shape.panels == 2 ? 2 : 2 * tilesM) * rowBlocks * 128), weightLane);
  Value tokens = e.add(e.mul(warpN(), tilesN * 1024), tokenLane);
  Value weightBase = bytes(e, stage, weights);
  Value tokenBase = bytes(e, stage, tokens);
  int64_t tileStride = shape.panels == 2 ? PANEL_BYTES : 2 * rowBlocks * 128;
  for (int64_t step = 0; step < steps; ++step) {
    llvm::SmallVector<Values> a;
    for (int64_t m = 0; m < tilesM; ++m) {
      a.push_back(loadMatrices(e, bytes(e, weightBase, m * tileStride + step * 256), 4));
    }
    for (int64_t part = shape.parts - 1; part >= 0; --part) { // small terms first
      for (int64_t n = 0; n < tilesN; n += 2) {
        int64_t offset = shape.panels * PANEL_BYTES + part * shape.partBytes() + n * 1024 + step * 256;
        bool pair = n + 1 < tilesN;
        Values b = loadMatrices(e, bytes(e, tokenBase, offset), pair ? 4 : 2);
        for (int64_t m = 0; m < tilesM; ++m) {
          for (int64_t half = 0; half < (pair ? 2 : 1); ++half) {
            int64_t first = (m * tilesN + n + half) * 4;
            Values sum =
                multiplyAdd(e, a[m], ValueRange(b).slice(2 * half, 2), ValueRange(sums).slice(first, 4));
            std::copy(sum.begin(), sum.end(), sums.begin() + first);
          }
        }
      }
    }
  }
  return sums;
}

Values BlockProduct::run(Value ring, int64_t stages, const Load &load,
                         const std::function<void()> &meanwhile) {
  int64_t count = stageCount(), ahead = stages - 1, stageBytes = shape.stageBytes();
  bool partial = tailSteps() != 0;
  int64_t early = std::min(ahead, count);
  e.loop(e.c(0), e.c(early), 1, [&](Value index) {
    load(bytes(e, ring, e.mul(index, stageBytes)), index);
    commitCopies(e);
  });
  for (int64_t s = early; s < ahead; ++s) {
    commitCopies(e); // empty groups keep the count of groups in step with the count of stages
  }
  if (meanwhile) {
    meanwhile();
  }
  auto advance = [&](Value offset) {
    Value next = e.add(offset, stageBytes);
    return e.select(e.equal(next, stages * stageBytes), e.c(0), next);
  };
  // One barrier a stage: behind it this stage has arrived for all, and nobody still reads the one before,
  // which the next copies overwrite.
  auto arrive = [&] {
    waitForCopies(e, ahead - 1);
    e.barrier();
  };
  Values init(shape.sums(), e.f(0.0));
  init.push_back(e.c(0));                  // of the stage to read
  init.push_back(e.c(ahead * stageBytes)); // of the stage to fill
  int64_t full = count - (partial ? 1 : 0);
  Values state = e.loop(e.c(0), e.c(full), e.c(1), init, [&](Value index, ValueRange carried) {
    arrive();
    Value reading = carried[shape.sums()], filling = carried[shape.sums() + 1];
    Value next = e.add(index, ahead);
    e.when(e.less(next, count), [&] { load(bytes(e, ring, filling), next); });
    commitCopies(e);
    Values sums =
        multiplyStage(bytes(e, ring, reading), carried.take_front(shape.sums()), BLOCK_DEPTH / 16, 8);
    sums.push_back(advance(reading));
    sums.push_back(advance(filling));
    return sums;
  });
  if (partial) {
    arrive();
    Value stage = bytes(e, ring, (full % stages) * stageBytes);
    return multiplyStage(stage, ValueRange(state).take_front(shape.sums()), tailSteps(), tail_row_blocks);
  }
  state.resize(shape.sums());
  return state;
}

llvm::SmallVector<PlacedSum> BlockProduct::placeSums(ValueRange sums) {
  int64_t tilesM = shape.tilesM(), tilesN = shape.tilesN();
  bool together = shape.panels == 2;
  Value firstRow = e.add(e.mul(warpM(), together ? 16 : 16 * tilesM), place.group);
  Value firstToken = e.add(e.mul(warpN(), tilesN * 8), e.mul(place.quad, 2));
  llvm::SmallVector<PlacedSum> placed;
  for (int64_t m = 0; m < (together ? 1 : tilesM); ++m) {
    for (int64_t i = 0; i < 4; ++i) {
      Value row = e.add(firstRow, m * 16 + (i / 2) * 8);
      for (int64_t n = 0; n < tilesN; ++n) {
        PlacedSum place{row, e.add(firstToken, n * 8 + i % 2), {sums[(m * tilesN + n) * 4 + i]}};
        if (together) {
          place.sums.push_back(sums[(tilesN + n) * 4 + i]);
        }
        placed.push_back(place);
      }
    }
  }
  return placed;
}

} // namespace smelt::codegen::cuda
