// norm_linear, linear_residual and gate_up of many tokens: stage 0 brings the activations into bf16 rows (see
// PrefillRows.h), stage 1 multiplies them by the weights on the tensor cores.
#include "compiler/Codegen/CUDA/GemmCore.h"
#include "compiler/Codegen/CUDA/PrefillKernels.h"
#include "compiler/Codegen/CUDA/PrefillRows.h"

using namespace mlir;

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t MOST_ROWS = 4096; // blocks along the tokens, which then take several

// What a dense product and its target fix at compile time.
struct DenseShape {
  DenseShape(const Target &target, int64_t depth, int64_t panels, int64_t parts)
      : depth(depth), panels(panels), parts(parts), shared_bytes(sharedBudget(target)) {
    // Two stages are the least; the widest block comes first.
    for (tokens = 128; BlockShape{panels, tokens, parts}.stages(shared_bytes) < 2;) {
      tokens /= 2;
    }
  }
  int64_t depth, panels, parts;
  int64_t shared_bytes; // of the ring
  int64_t tokens;       // of a block, at most
};

// Weights in layout `rows` whose products become columns `column` and on of the result.
struct Projection {
  Value weight[2]; // one matrix a panel
  Value bias;      // bf16 or null
  int64_t rows;
  int64_t column;
};

// The part of a product that one block computes.
struct BlockWork {
  Value weight[2], bias;
  Value firstRow, rows;     // of the matrix: rows firstRow and on, of `rows`
  Value column;             // of the result, for row 0
  Value firstToken, tokens; // this block's
};

class DenseProduct {
public:
  DenseProduct(Emitter &e, const DenseShape &shape) : e(e), place(e), s(shape) {}

  // Rows of scratch as emitRows leaves them.
  using Finish = std::function<void(const BlockWork &, llvm::ArrayRef<PlacedSum>)>;
  void run(llvm::ArrayRef<Projection> projections, Value rows, Value count, Value ring, const Finish &finish);

private:
  BlockWork pickWork(llvm::ArrayRef<Projection> projections, Value count);
  void loadWeights(const BlockWork &work, Value stage, Value index);
  void loadTokens(const BlockWork &work, Value rows, int64_t tokens, Value stage, Value index);

  Emitter &e;
  ThreadPlace place;
  const DenseShape &s;
};

BlockWork DenseProduct::pickWork(llvm::ArrayRef<Projection> projections, Value count) {
  Value block = e.block(0);
  BlockWork work{};
  int64_t first = 0;
  for (const Projection &p : projections) {
    BlockWork candidate{{p.weight[0], p.weight[1]},
                        p.bias,
                        e.mul(e.sub(block, first), PANEL_ROWS),
                        e.c(p.rows),
                        e.c(p.column),
                        {},
                        {}};
    if (first == 0) {
      work = candidate;
    } else {
      Value here = e.lessEqual(e.c(first), block);
      auto pick = [&](Value &mine, Value theirs) {
        if (mine) {
          mine = e.select(here, theirs, mine);
        }
      };
      pick(work.weight[0], candidate.weight[0]);
      pick(work.weight[1], candidate.weight[1]);
      pick(work.bias, candidate.bias);
      pick(work.firstRow, candidate.firstRow);
      pick(work.rows, candidate.rows);
      pick(work.column, candidate.column);
    }
    first += (p.rows + PANEL_ROWS - 1) / PANEL_ROWS;
  }
  work.firstToken = e.mul(e.block(1), s.tokens);
  work.tokens = e.min(e.sub(count, work.firstToken), s.tokens);
  return work;
}

// A thread copies 16-byte chunks thread, thread + 128, ...: chunk c is row 8 * (c / 64) + c % 8, columns 8 *
// (c / 8 % 8) and on, and lies at 16 * c: eight lanes write 128 consecutive bytes, four chunks of a row are
// one warp's.
void DenseProduct::loadWeights(const BlockWork &work, Value stage, Value index) {
  int64_t stride = rowStride(s.depth);
  Value column = e.add(e.mul(index, BLOCK_DEPTH), e.mul(e.andi(e.shr(place.thread, 3), 7), 8));
  Value inside = stride % BLOCK_DEPTH ? e.less(column, stride) : Value();
  for (int64_t i = 0; i < PANEL_ROWS / 16; ++i) {
    Value row = e.add(e.mul(e.shr(place.thread, 6), 8), e.add(e.andi(place.thread, 7), i * 16));
    Value matrixRow = e.add(work.firstRow, row);
    Value valid = e.less(matrixRow, work.rows);
    if (inside) {
      valid = e.both(valid, inside);
    }
    Value element = wideAdd(e, wideMul(e, matrixRow, stride), column);
    for (int64_t panel = 0; panel < s.panels; ++panel) {
      Value from = e.select(valid, e.at(work.weight[panel], e.bf16(), element), work.weight[panel]);
      Value to = bytes(e, stage, e.add(e.mul(place.thread, 16), panel * PANEL_BYTES + i * 2048));
      copyAsync(e, to, from, valid);
    }
  }
}

void DenseProduct::loadTokens(const BlockWork &work, Value rows, int64_t tokens, Value stage, Value index) {
  RowFormat format{s.depth, s.parts};
  int64_t padded = paddedColumns(s.depth);
  Value column = e.add(e.mul(index, BLOCK_DEPTH), e.mul(e.andi(e.shr(place.thread, 3), 7), 8));
  Value inside = padded % BLOCK_DEPTH ? e.less(column, padded) : Value();
  for (int64_t i = 0; i < tokens / 16; ++i) {
    Value row = e.add(e.mul(e.shr(place.thread, 6), 8), e.add(e.andi(place.thread, 7), i * 16));
    Value valid = e.less(row, work.tokens);
    if (inside) {
      valid = e.both(valid, inside);
    }
    Value offset = wideAdd(e, wideMul(e, e.add(work.firstToken, row), format.rowBytes()), e.mul(column, 2));
    for (int64_t part = 0; part < s.parts; ++part) {
      Value from = e.select(valid, bytes(e, bytes(e, rows, offset), part * format.partBytes()), rows);
      Value to = bytes(e, stage,
                       e.add(e.mul(place.thread, 16),
                             s.panels * PANEL_BYTES + part * tokens * BLOCK_DEPTH * 2 + i * 2048));
      copyAsync(e, to, from, valid);
    }
  }
}

void DenseProduct::run(llvm::ArrayRef<Projection> projections, Value rows, Value count, Value ring,
                       const Finish &finish) {
  BlockWork work = pickWork(projections, count);
  // The same product for several widths of the block, the narrowest that holds the tokens.
  for (int64_t tokens = 16, below = 0; tokens <= s.tokens; below = tokens, tokens *= 2) {
    Value fits = e.both(e.less(e.c(below), work.tokens), e.lessEqual(work.tokens, tokens));
    e.when(fits, [&] {
      BlockShape shape{s.panels, tokens, s.parts};
      BlockProduct product(e, place, shape, s.depth);
      Values sums = product.run(ring, shape.stages(s.shared_bytes), [&](Value stage, Value index) {
        loadWeights(work, stage, index);
        loadTokens(work, rows, tokens, stage, index);
      });
      finish(work, product.placeSums(sums));
    });
  }
}

int64_t rowBlocks(int64_t rows) { return (rows + PANEL_ROWS - 1) / PANEL_ROWS; }

// Stage 0: the rows of the step (or those that get logits) in scratch.
void addRowStage(KernelBuilder &k, const RowFormat &format, bool logitRows,
                 const std::function<RowSource(Emitter &, StageFrame &)> &source) {
  RowThreads threads(format.width);
  (logitRows ? k.result.scratch.per_logit_row : k.result.scratch.per_token) = format.rowBytes();
  k.stage(
      {.x = gridOf(threads.rows(), logitRows), .threads = threads.block}, [&](Emitter &e, StageFrame &frame) {
        RowSource rows = source(e, frame);
        rows.count = frame.constantInt(0);
        rows.target = frame.scratch();
        emitRows(e, format, rows, e.mul(e.block(0), threads.rows()), frame.shared(threads.block / WARP * 4));
      });
}

// Stage 1: the product; `outputs` are rows of each matrix.
void addProductStage(KernelBuilder &k, const DenseShape &shape, llvm::ArrayRef<int64_t> outputs,
                     bool logitRows,
                     const std::function<llvm::SmallVector<Projection>(StageFrame &)> &projections,
                     const std::function<void(Emitter &, StageFrame &, const BlockWork &,
                                              llvm::ArrayRef<PlacedSum>)> &finish) {
  int64_t blocks = 0;
  for (int64_t rows : outputs) {
    blocks += rowBlocks(rows);
  }
  GridSize tokens = gridOf(shape.tokens, logitRows);
  k.stage({.x = {.fixed = blocks}, .y = tokens, .threads = PRODUCT_THREADS, .min_blocks = 2},
          [&](Emitter &e, StageFrame &frame) {
            Value ring = frame.shared(shape.shared_bytes, SHARED_ALIGNMENT);
            DenseProduct(e, shape).run(
                projections(frame), frame.scratch(), frame.constantInt(0), ring,
                [&](const BlockWork &work, llvm::ArrayRef<PlacedSum> sums) { finish(e, frame, work, sums); });
          });
}

// The product of the rows of scratch by a matrix, for a library.
GemmStage gemmOf(unsigned weight, int64_t depth, int64_t outputs) {
  return {.weight = weight,
          .outputs = outputs,
          .depth = rowStride(depth),
          .activation_stride = paddedColumns(depth),
          .result_stride = outputs};
}

// Address of a place of a f32 result with rows of `width`, and whether the block has it.
struct ResultPlace {
  Value offset; // elements, i64
  Value valid;
};
ResultPlace resultPlace(Emitter &e, const BlockWork &work, const PlacedSum &sum, int64_t width) {
  Value row = e.add(work.firstRow, sum.row);
  Value offset = wideAdd(e, wideMul(e, e.add(work.firstToken, sum.token), width), e.add(work.column, row));
  return {offset, e.both(e.less(row, work.rows), e.less(sum.token, work.tokens))};
}

} // namespace

// x, [norm weight], [rows], [x_norm], weights, [biases], out; constants: rows, eps. Router logits (emit_norm)
// are as exact as f32: their rows come in three parts.
void emitGemmNormLinear(KernelBuilder &k) {
  int64_t in = k.param("in"), outs = k.param("outs"), width = 0;
  bool norm = k.has("norm"), gather = k.has("gather"), emit = k.has("emit_norm"), bias = k.has("bias");
  llvm::SmallVector<int64_t> outputs;
  for (int64_t i = 0; i < outs; ++i) {
    outputs.push_back(k.param(("out" + std::to_string(i)).c_str()));
    width += outputs.back();
  }
  unsigned next = 1;
  unsigned normAt = norm ? next++ : 0, rowsAt = gather ? next++ : 0, emitAt = emit ? next++ : 0;
  unsigned weightsAt = next, biasesAt = next + outs, outAt = next + outs * (bias ? 2 : 1);
  k.parameters(outAt + 1, 2);
  DenseShape shape(k.target(), in, 1, emit ? 3 : 1);
  addRowStage(k, {in, shape.parts}, gather, [&](Emitter &, StageFrame &frame) {
    RowSource source{.x = frame.binding(0)};
    if (norm) {
      source.norm = frame.binding(normAt);
      source.epsilon = frame.constantFloat(1);
    }
    if (gather) {
      source.gather = frame.binding(rowsAt);
    }
    if (emit) {
      source.emit = frame.binding(emitAt);
    }
    return source;
  });
  auto projections = [&](StageFrame &frame) {
    llvm::SmallVector<Projection> all;
    int64_t column = 0;
    for (int64_t i = 0; i < outs; ++i) {
      Value weight = frame.binding(weightsAt + i);
      all.push_back({{weight, weight}, bias ? frame.binding(biasesAt + i) : Value(), outputs[i], column});
      column += outputs[i];
    }
    return all;
  };
  addProductStage(k, shape, outputs, gather, projections,
                  [&](Emitter &e, StageFrame &frame, const BlockWork &work, llvm::ArrayRef<PlacedSum> sums) {
                    for (const PlacedSum &sum : sums) {
                      ResultPlace place = resultPlace(e, work, sum, width);
                      Value result = sum.sums[0];
                      if (bias) {
                        Value row = e.min(e.add(work.firstRow, sum.row), e.sub(work.rows, 1));
                        result = e.addf(result, e.readBf16(work.bias, row));
                      }
                      e.when(place.valid,
                             [&] { e.store(result, e.at(frame.binding(outAt), e.f32(), place.offset), 4); });
                    }
                  });
  // The router's activations are f32, and biases are added in f32: our kernel does both.
  if (!emit && !bias) {
    k.libraryRows();
    for (int64_t i = 0, column = 0; i < outs; column += outputs[i++]) {
      GemmStage gemm = gemmOf(weightsAt + i, in, outputs[i]);
      gemm.result = outAt;
      gemm.column = column;
      gemm.result_stride = width;
      k.libraryGemm(gemm);
    }
  }
}

// a, weight, x_in, x_out; constants: T, scale.
void emitGemmLinearResidual(KernelBuilder &k) {
  int64_t in = k.param("in"), out = k.param("out");
  k.parameters(4, 2);
  DenseShape shape(k.target(), in, 1, 1);
  addRowStage(k, {in}, false, [&](Emitter &, StageFrame &frame) { return RowSource{.x = frame.binding(0)}; });
  addProductStage(
      k, shape, {out}, false,
      [&](StageFrame &frame) {
        Value weight = frame.binding(1);
        return llvm::SmallVector<Projection>{{{weight, weight}, Value(), out, 0}};
      },
      [&](Emitter &e, StageFrame &frame, const BlockWork &work, llvm::ArrayRef<PlacedSum> sums) {
        // x_in may be x_out, so all loads come before the stores: they are under way together.
        Value scale = frame.constantFloat(1);
        llvm::SmallVector<std::pair<ResultPlace, Value>> results;
        for (const PlacedSum &sum : sums) {
          ResultPlace place = resultPlace(e, work, sum, out);
          Value before = e.choose(
              place.valid,
              [&] { return Values{e.load(e.f32(), e.at(frame.binding(2), e.f32(), place.offset), 4)}; },
              [&] { return Values{e.f(0.0)}; })[0];
          results.push_back({place, e.fma(scale, sum.sums[0], before)});
        }
        for (auto &[place, result] : results) {
          e.when(place.valid, [&] { e.store(result, e.at(frame.binding(3), e.f32(), place.offset), 4); });
        }
      });
  k.libraryRows();
  GemmStage gemm = gemmOf(1, in, out);
  gemm.addend = 2;
  gemm.result = 3;
  gemm.scale = 1;
  k.libraryGemm(gemm);
}

// x, [norm weight], gate, up, h; constants: T, eps.
void emitGemmGateUp(KernelBuilder &k) {
  int64_t in = k.param("in"), out = k.param("out");
  bool norm = k.has("norm");
  unsigned gateAt = norm ? 2 : 1;
  k.parameters(gateAt + 3, 2);
  DenseShape shape(k.target(), in, 2, 1);
  addRowStage(k, {in}, false, [&](Emitter &, StageFrame &frame) {
    RowSource source{.x = frame.binding(0)};
    if (norm) {
      source.norm = frame.binding(1);
      source.epsilon = frame.constantFloat(1);
    }
    return source;
  });
  addProductStage(
      k, shape, {out}, false,
      [&](StageFrame &frame) {
        return llvm::SmallVector<Projection>{
            {{frame.binding(gateAt), frame.binding(gateAt + 1)}, Value(), out, 0}};
      },
      [&](Emitter &e, StageFrame &frame, const BlockWork &work, llvm::ArrayRef<PlacedSum> sums) {
        for (const PlacedSum &sum : sums) {
          ResultPlace place = resultPlace(e, work, sum, out);
          Value result = e.mulf(e.silu(sum.sums[0]), sum.sums[1]);
          e.when(place.valid,
                 [&] { e.store(result, e.at(frame.binding(gateAt + 2), e.f32(), place.offset), 4); });
        }
      });
  // For a library the gate goes where the result will be and the up projection to scratch, behind the rows.
  k.libraryRows();
  GemmStage gemm = gemmOf(gateAt, in, out);
  gemm.result = gateAt + 2;
  k.libraryGemm(gemm);
  gemm.weight = gateAt + 1;
  gemm.result = -1;
  k.libraryGemm(gemm);
  k.result.library_scratch.per_token += 4 * out;
  constexpr int64_t threads = 256;
  StageShape launch{.x = {.fixed = out, .divisor = threads},
                    .y = {.fixed = 0, .per_token = 1, .limit = MOST_ROWS},
                    .threads = threads};
  k.libraryStage(launch, [&](Emitter &e, StageFrame &frame) {
    Value column = e.add(e.mul(e.block(0), threads), e.thread()), tokens = frame.constantInt(0);
    Value ups = bytes(e, frame.scratch(), wideMul(e, tokens, RowFormat{in}.rowBytes()));
    e.when(e.less(column, out), [&] {
      e.loop(e.block(1), tokens, e.blocks(1), [&](Value token) {
        Value h = e.row(frame.binding(gateAt + 2), e.f32(), token, out);
        Value up = e.loadF32(e.row(ups, e.f32(), token, out), column);
        e.storeF32(e.mulf(e.silu(e.loadF32(h, column)), up), h, column);
      });
    });
  });
}

} // namespace smelt::codegen::cuda
