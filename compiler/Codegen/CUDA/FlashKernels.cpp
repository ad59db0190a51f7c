// attention of many tokens, in the way of FlashAttention-2: blocks of 64 query rows against tiles of cached
// keys and values on tensor cores, softmax kept running in registers.
//
// A query row is a (token, query head) pair; the query heads that share a key/value head share a block, so
// that even one token of a sequence fills several rows. A step mixes sequences freely: stage 0 cuts the
// tokens into runs of one sequence, and runs into tiles, so that a block has one sequence's keys to read.
#include "compiler/Codegen/CUDA/GemmCore.h"
#include "compiler/Codegen/CUDA/PrefillKernels.h"

#include <cmath>

using namespace mlir;

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t QUERY_ROWS = 64; // of a block, 16 a warp
constexpr int64_t THREADS = 128;
constexpr int64_t PLAN_THREADS = 256;
constexpr int64_t MAX_TILE_BLOCKS = 512; // along x; further tiles are taken in turn
constexpr double MASKED = -1.0e30;       // finite: differences of two masked scores must not be NaN

// Sizes that follow from the parameters and the target.
struct Shape {
  Shape(const KernelDesc &k, int64_t sharedLimit)
      : query_heads(k.param("query_heads")), kv_heads(k.param("kv_heads")), head_dim(k.param("head_dim")) {
    group = query_heads / kv_heads;
    heads = std::min(group, QUERY_ROWS);
    head_chunks = (group + heads - 1) / heads;
    tokens = QUERY_ROWS / heads;
    depth = roundUp(head_dim, 16);
    // Beyond 256 columns the sums of a row no longer fit the registers: blocks share out the columns.
    columns = depth <= 256 ? depth : 128;
    column_chunks = (depth + columns - 1) / columns;
    for (keys = depth <= 128 ? 64 : 32; keys > 16 && sharedBytes() > sharedLimit;) {
      keys /= 2;
    }
  }
  // A row of keys has 16 bytes more than its elements: an odd number of 16-byte words, free of bank
  // conflicts.
  int64_t keyStride() const { return 2 * depth + 16; }
  int64_t valueStride() const { return 2 * columns + 16; }
  int64_t keyTile() const { return keys * keyStride(); }
  int64_t valueTile() const { return keys * valueStride(); }
  int64_t keysAt() const { return QUERY_ROWS * keyStride(); }
  int64_t valuesAt() const { return keysAt() + 2 * keyTile(); }
  int64_t sharedBytes() const { return valuesAt() + 2 * valueTile(); }
  int64_t rowElements() const { return roundUp(head_dim, 8); } // of a cached key or value

  int64_t query_heads, kv_heads, head_dim;
  int64_t group, heads, head_chunks; // query heads: of a KV head, of a block, blocks of them
  int64_t tokens;                    // of a block
  int64_t depth;                     // head_dim in steps of 16
  int64_t columns, column_chunks;    // of the values
  int64_t keys = 0;                  // of a tile
};

// Scratch of the two stages: the number of tiles, then where each starts, then the end of the last.
Value tileCount(StageFrame &frame) { return frame.scratch(); }
Value tileStarts(Emitter &e, StageFrame &frame) { return e.at(frame.scratch(), e.i32(), 1); }

// Stage 0, one block: where tiles begin. A tile is at most `tokens` consecutive tokens of one sequence.
void emitTilePlan(Emitter &e, StageFrame &frame, const Shape &s) {
  Value sequences = frame.binding(2), starts = tileStarts(e, frame);
  Value runShared = frame.shared(PLAN_THREADS / 8), tileShared = frame.shared(PLAN_THREADS / 8);
  Value tokens = frame.constantInt(0);
  ThreadPlace place(e);
  // Carried from one stretch of tokens to the next: where the latest run began, and tiles so far.
  Values state =
      e.loop(e.c(0), tokens, e.c(PLAN_THREADS), {e.c(0), e.c(0)}, [&](Value first, ValueRange carried) {
        Value token = e.add(first, place.thread);
        Value valid = e.less(token, tokens);
        Value here = e.select(valid, token, e.c(0));
        Value previous = e.max(e.sub(here, 1), 0);
        Value changed = e.notEqual(e.loadI32(sequences, here), e.loadI32(sequences, previous));
        BlockScan run =
            blockScan(e, place, e.select(changed, token, e.c(0)), PLAN_THREADS, runShared, ScanKind::maximum);
        Value runStart = e.max(carried[0], run.inclusive);
        Value begins = e.both(valid, e.equal(e.rem(e.sub(token, runStart), s.tokens), e.c(0)));
        BlockScan tile =
            blockScan(e, place, e.select(begins, e.c(1), e.c(0)), PLAN_THREADS, tileShared, ScanKind::sum);
        e.when(begins, [&] {
          Value index = e.sub(e.add(carried[1], tile.inclusive), 1);
          e.store(token, e.at(starts, e.i32(), index), 4);
        });
        e.barrier(); // the next stretch writes the shared totals again
        return Values{e.max(carried[0], run.total), e.add(carried[1], tile.total)};
      });
  e.when(e.equal(place.thread, 0), [&] {
    e.store(state[1], tileCount(frame), 4);
    e.store(tokens, e.at(starts, e.i32(), state[1]), 4);
  });
}

// Stage 1: the tiles, one KV head (and chunk of query heads, and of value columns) a block.
class TileKernel {
public:
  TileKernel(Emitter &e, StageFrame &frame, const Shape &s)
      : e(e), frame(frame), s(s), place(e), shared(frame.shared(s.sharedBytes(), SHARED_ALIGNMENT)) {}
  void emit();

private:
  void emitTile(Value tile);
  void loadQueries();
  void loadKeysAndValues(Value index, Value buffer);
  void copyRows(Value slot, Value base, int64_t chunksHere, Value firstChunk, int64_t stride, Value index);
  Values queryFragment(Value columnBytes);
  Values scores(Value buffer);
  Values mask(ValueRange scores, Value index);
  Values addTile(Value index, ValueRange carried);
  void storeRows(ValueRange state);

  int64_t scoreCount() const { return s.keys / 2; }
  int64_t sumCount() const { return s.columns / 2; }

  Emitter &e;
  StageFrame &frame;
  const Shape &s;
  ThreadPlace place;
  Value shared;
  Value kvHead, firstHead, firstColumnChunk;               // of this block
  Value start, rows, keyBase, lastPosition, leastPosition; // of the tile
  Value rowPosition[2];                                    // of the two rows this thread holds
  std::vector<Values> queries;                             // fragments kept in registers
};

void TileKernel::emit() {
  // y: (KV head, chunk of its query heads); z: chunk of value columns.
  Value y = e.block(1), z = e.block(2);
  kvHead = s.head_chunks == 1 ? y : e.div(y, s.head_chunks);
  firstHead = e.mul(kvHead, s.group);
  if (s.head_chunks > 1) {
    firstHead = e.add(firstHead, e.mul(e.rem(y, s.head_chunks), s.heads));
  }
  firstColumnChunk = s.column_chunks == 1 ? e.c(0) : e.mul(z, s.columns / 8);
  Value tiles = e.load(e.i32(), tileCount(frame), 4);
  e.loop(e.block(0), tiles, e.blocks(0), [&](Value tile) { emitTile(tile); });
}

void TileKernel::emitTile(Value tile) {
  Value starts = tileStarts(e, frame), positions = frame.binding(1), sequences = frame.binding(2);
  start = e.loadI32(starts, tile);
  Value count = e.sub(e.loadI32(starts, e.add(tile, 1)), start);
  rows = e.mul(count, s.heads);
  Value sequence = e.loadI32(sequences, start);
  // Rows of the cache before this sequence and head.
  keyBase = wideMul(e, e.add(e.mul(sequence, s.kv_heads), kvHead), frame.constantInt(1));

  // Every warp finds the range of positions for itself: at most 64 tokens.
  Value last = e.sub(count, 1);
  auto positionOf = [&](Value token) { return e.loadI32(positions, e.add(start, e.min(token, last))); };
  Value first = positionOf(place.lane), second = positionOf(e.add(place.lane, 32));
  lastPosition = e.warpMax(e.max(first, second));
  leastPosition = e.sub(e.c(0), e.warpMax(e.sub(e.c(0), e.min(first, second))));
  for (int half = 0; half < 2; ++half) {
    Value row = e.add(e.add(e.mul(place.warp, 16), place.group), half * 8);
    // Rows of no token mask every key; what becomes of them is never stored.
    rowPosition[half] = e.select(e.less(row, rows), positionOf(e.div(row, s.heads)), e.c(-1));
  }

  e.barrier(); // the previous tile has been read
  loadQueries();
  loadKeysAndValues(e.c(0), e.c(0));
  commitCopies(e);
  e.barrier(); // queries are there
  queries.clear();
  if (s.depth <= 128) {
    for (int64_t step = 0; step < s.depth / 16; ++step) {
      queries.push_back(queryFragment(e.c(step * 32)));
    }
  }

  Values init = {e.f(MASKED), e.f(MASKED), e.f(0.0), e.f(0.0)};
  init.append(sumCount(), e.f(0.0));
  Value count64 = e.add(e.div(lastPosition, s.keys), 1);
  Values state = e.loop(e.c(0), count64, e.c(1), init, [&](Value index, ValueRange carried) {
    waitForCopies(e, 0);
    e.barrier(); // this tile has arrived for all, and nobody reads the one before
    Value next = e.add(index, 1);
    e.when(e.less(next, count64), [&] { loadKeysAndValues(next, e.andi(next, 1)); });
    commitCopies(e);
    return addTile(index, carried);
  });
  storeRows(state);
}

// The queries of the block as bf16 rows in shared memory, zero-padded in both directions. A loop, because the
// addresses of all words, written out, would be kept in registers from tile to tile.
void TileKernel::loadQueries() {
  Value q = frame.binding(0);
  int64_t words = s.depth / 2, total = QUERY_ROWS * words;
  int64_t batch = s.depth % 32 ? 4 : 8; // loads under way together; divides total / THREADS
  e.loop(place.thread, e.c(total), batch * THREADS, [&](Value begin) {
    llvm::SmallVector<std::pair<Value, Value>> loaded; // shared address, word
    for (int64_t i = 0; i < batch; ++i) {
      Value index = e.add(begin, i * THREADS);
      Value row = e.div(index, words), word = e.rem(index, words);
      Value valid = e.less(row, rows);
      if (s.depth != s.head_dim) {
        valid = e.both(valid, e.less(word, s.head_dim / 2));
      }
      Value safeRow = e.select(valid, row, e.c(0)), safeWord = e.select(valid, word, e.c(0));
      Value token = e.add(start, e.div(safeRow, s.heads)), head = e.add(firstHead, e.rem(safeRow, s.heads));
      if (s.group % s.heads) { // the last chunk of heads is not full
        head = e.min(head, e.sub(e.mul(e.add(kvHead, 1), s.group), 1));
      }
      Value column = e.add(e.mul(head, s.head_dim), e.mul(safeWord, 2));
      Value offset = wideAdd(e, wideMul(e, token, s.query_heads * s.head_dim), column);
      Value pair = e.load(vectorType(e, e.f32(), 2), e.at(q, e.f32(), offset), 8);
      Value packed = e.packBf16(lane(e, pair, 0), lane(e, pair, 1));
      loaded.push_back({bytes(e, shared, e.add(e.mul(row, s.keyStride()), e.mul(word, 4))),
                        e.select(valid, packed, e.c(0))});
    }
    for (auto [address, word] : loaded) {
      e.store(word, address, 4);
    }
  });
}

// Rows keys * index and on of a cache slot, 16 bytes at a time; zeros past the last position and past the
// row. As many threads as whole rows take part, each with one chunk of every few rows: addresses are one base
// and constants.
void TileKernel::copyRows(Value slot, Value base, int64_t chunks, Value firstChunk, int64_t stride,
                          Value index) {
  int64_t rowsAtOnce = THREADS / chunks, cached = s.rowElements() / 8;
  Value row = e.div(place.thread, chunks), chunk = e.rem(place.thread, chunks);
  Value position = e.add(e.mul(index, s.keys), row), source = e.add(chunk, firstChunk);
  Value element = wideMul(e, wideAdd(e, keyBase, position), s.rowElements());
  Value from = e.at(slot, e.bf16(), wideAdd(e, element, e.mul(source, 8)));
  Value to = bytes(e, base, e.add(e.mul(row, stride), e.mul(chunk, 16)));
  bool padded = s.depth / 8 != cached || s.column_chunks > 1;
  Value inRow = padded ? e.less(source, cached) : Value();
  auto copy = [&](int64_t first) {
    Value valid = e.lessEqual(e.add(position, first), lastPosition);
    if (padded) {
      valid = e.both(valid, inRow);
    }
    Value address = e.select(valid, bytes(e, from, 2 * first * s.rowElements()), slot);
    copyAsync(e, bytes(e, to, first * stride), address, valid);
  };
  for (int64_t first = 0; first < s.keys; first += rowsAtOnce) {
    int64_t left = std::min(rowsAtOnce, s.keys - first);
    if (left * chunks == THREADS) {
      copy(first);
    } else {
      e.when(e.less(row, left), [&] { copy(first); });
    }
  }
}

void TileKernel::loadKeysAndValues(Value index, Value buffer) {
  Value keys = bytes(e, shared, e.add(e.mul(buffer, s.keyTile()), s.keysAt()));
  Value values = bytes(e, shared, e.add(e.mul(buffer, s.valueTile()), s.valuesAt()));
  copyRows(frame.binding(3), keys, s.depth / 8, e.c(0), s.keyStride(), index);
  copyRows(frame.binding(4), values, s.columns / 8, firstColumnChunk, s.valueStride(), index);
}

Values TileKernel::queryFragment(Value columnBytes) {
  Value row = e.add(e.mul(place.warp, 16), e.andi(place.lane, 15));
  Value offset = e.add(e.mul(row, s.keyStride()), e.mul(e.shr(place.lane, 4), 16));
  return loadMatrices(e, bytes(e, shared, e.add(offset, columnBytes)), 4);
}

// The products of this warp's 16 query rows with the tile's keys, four sums for every 8 keys.
Values TileKernel::scores(Value buffer) {
  // Keys are rows: matrices are (keys 0-7, columns 0-7), (keys 0-7, columns 8-15), then keys 8-15.
  Value line = e.andi(place.lane, 7), low = e.andi(e.shr(place.lane, 3), 1), high = e.shr(place.lane, 4);
  Value offset = e.add(e.mul(e.add(e.mul(high, 8), line), s.keyStride()), e.mul(low, 16));
  Value base = bytes(e, shared, e.add(offset, e.add(e.mul(buffer, s.keyTile()), s.keysAt())));
  auto addStep = [&](ValueRange a, Value at, ValueRange carried) {
    Values sums(carried);
    for (int64_t key = 0; key < s.keys; key += 16) {
      Values b = loadMatrices(e, bytes(e, at, key * s.keyStride()), 4);
      for (int64_t half = 0; half < 2; ++half) {
        int64_t first = key / 2 + half * 4;
        Values sum = multiplyAdd(e, a, ValueRange(b).slice(2 * half, 2), ValueRange(sums).slice(first, 4));
        std::copy(sum.begin(), sum.end(), sums.begin() + first);
      }
    }
    return sums;
  };
  Values sums(scoreCount(), e.f(0.0));
  int64_t steps = s.depth / 16;
  if (queries.empty()) { // written out, ptxas would load more ahead than there are registers
    return e.loop(e.c(0), e.c(steps), e.c(1), sums, [&](Value step, ValueRange carried) {
      return addStep(queryFragment(e.mul(step, 32)), bytes(e, base, e.mul(step, 32)), carried);
    });
  }
  for (int64_t step = 0; step < steps; ++step) {
    sums = addStep(queries[step], bytes(e, base, step * 32), sums);
  }
  return sums;
}

// Scores of keys behind a row's position become MASKED; only tiles that reach past the first position need
// it.
Values TileKernel::mask(ValueRange scores, Value index) {
  Value firstKey = e.mul(index, s.keys);
  Value beyond = e.less(leastPosition, e.add(firstKey, s.keys - 1));
  Values unchanged(scores);
  return e.choose(
      beyond,
      [&] {
        Values masked;
        Value key = e.add(firstKey, e.mul(place.quad, 2));
        for (int64_t i = 0; i < scoreCount(); ++i) {
          Value seen = e.lessEqual(e.add(key, i / 4 * 8 + i % 2), rowPosition[i % 4 / 2]);
          masked.push_back(e.select(seen, unchanged[i], e.f(MASKED)));
        }
        return masked;
      },
      [&] { return unchanged; });
}

// Carried: the largest score of each of the two rows, their sums of weights, the weighted sums of values.
Values TileKernel::addTile(Value index, ValueRange carried) {
  Value buffer = e.andi(index, 1);
  Values p = mask(scores(buffer), index);
  double scale = 1.4426950408889634 / std::sqrt(static_cast<double>(s.head_dim)); // weights are powers of two
  auto larger = [&](Value a, Value b) { return e.maxf(a, b); };
  Values next;
  Value correction[2], negated[2], sum[2];
  for (int half = 0; half < 2; ++half) {
    Value top = carried[half];
    for (int64_t i = 2 * half; i < scoreCount(); i += 4) {
      top = larger(top, larger(p[i], p[i + 1]));
    }
    for (int32_t distance : {1, 2}) { // the four lanes that share the row
      top = larger(top, e.shuffleXor(top, distance));
    }
    next.push_back(top);
    correction[half] = e.exp2(e.mulf(e.subf(carried[half], top), e.f(scale)));
    negated[half] = e.mulf(top, e.f(-scale));
    sum[half] = e.mulf(carried[2 + half], correction[half]);
  }
  for (int64_t i = 0; i < scoreCount(); ++i) {
    int half = i % 4 / 2;
    p[i] = e.exp2(e.fma(p[i], e.f(scale), negated[half]));
    sum[half] = e.addf(sum[half], p[i]);
  }
  next.append({sum[0], sum[1]});
  Values o;
  for (int64_t i = 0; i < sumCount(); ++i) {
    o.push_back(e.mulf(carried[4 + i], correction[i % 4 / 2]));
  }
  // Values are rows of keys, so transposed: matrices are (keys 0-7, columns 0-7), (keys 8-15, columns 0-7),
  // then columns 8-15.
  Value line = e.andi(place.lane, 7), low = e.andi(e.shr(place.lane, 3), 1), high = e.shr(place.lane, 4);
  Value offset = e.add(e.mul(e.add(e.mul(low, 8), line), s.valueStride()), e.mul(high, 16));
  Value base = bytes(e, shared, e.add(offset, e.add(e.mul(buffer, s.valueTile()), s.valuesAt())));
  for (int64_t key = 0; key < s.keys; key += 16) {
    // Scores of 16 keys lie in the lanes just as a left operand of 16 columns does.
    const Value *w = &p[key / 2];
    Values a = {e.packBf16(w[0], w[1]), e.packBf16(w[2], w[3]), e.packBf16(w[4], w[5]),
                e.packBf16(w[6], w[7])};
    for (int64_t column = 0; column < s.columns; column += 16) {
      Values b = loadMatrices(e, bytes(e, base, key * s.valueStride() + column * 2), 4, /*transpose=*/true);
      for (int64_t half = 0; half < 2; ++half) {
        int64_t first = column / 2 + half * 4;
        Values added = multiplyAdd(e, a, ValueRange(b).slice(2 * half, 2), ValueRange(o).slice(first, 4));
        std::copy(added.begin(), added.end(), o.begin() + first);
      }
    }
  }
  next.append(o);
  return next;
}

void TileKernel::storeRows(ValueRange state) {
  Value out = frame.binding(5);
  for (int half = 0; half < 2; ++half) {
    Value sum = state[2 + half];
    for (int32_t distance : {1, 2}) {
      sum = e.addf(sum, e.shuffleXor(sum, distance));
    }
    Value inverse = e.rcp(sum);
    Value row = e.add(e.add(e.mul(place.warp, 16), place.group), half * 8);
    Value headInBlock = e.rem(row, s.heads), head = e.add(firstHead, headInBlock);
    Value valid = e.less(row, rows);
    if (s.group % s.heads) {
      valid = e.both(valid, e.less(head, e.mul(e.add(kvHead, 1), s.group)));
    }
    e.when(valid, [&] {
      Value token = e.add(start, e.div(row, s.heads));
      Value column = e.add(e.mul(firstColumnChunk, 8), e.mul(place.quad, 2));
      Value base = e.at(
          out, e.f32(),
          wideAdd(e, wideMul(e, token, s.query_heads * s.head_dim), e.add(e.mul(head, s.head_dim), column)));
      for (int64_t tile = 0; tile < s.columns / 8; ++tile) {
        Value first = e.mulf(state[4 + tile * 4 + half * 2], inverse);
        Value second = e.mulf(state[4 + tile * 4 + half * 2 + 1], inverse);
        auto store = [&] { e.store(e.vectorOf({first, second}), bytes(e, base, tile * 32), 8); };
        if (s.column_chunks == 1 && (tile + 1) * 8 <= s.head_dim) {
          store();
        } else {
          e.when(e.less(e.add(column, tile * 8), s.head_dim), store);
        }
      }
    });
  }
}

} // namespace

void emitFlashAttention(KernelBuilder &k) {
  Shape s(k.desc(), sharedLimit(k.target()));
  if (s.sharedBytes() > sharedLimit(k.target())) {
    k.fail("head_dim " + std::to_string(s.head_dim) + " takes " + std::to_string(s.sharedBytes()) +
           " bytes of shared memory, a block of " + k.target().chip + " has " +
           std::to_string(sharedLimit(k.target())));
    return;
  }
  k.parameters(6, 2);
  k.result.scratch = {.bytes = 8, .per_token = 4};
  k.stage({.x = {}, .threads = PLAN_THREADS},
          [&](Emitter &e, StageFrame &frame) { emitTilePlan(e, frame, s); });
  StageShape tiles{.x = gridOf(1), .threads = THREADS, .min_blocks = s.depth <= 64 ? 3 : 2};
  tiles.x.limit = MAX_TILE_BLOCKS;
  tiles.y.fixed = s.kv_heads * s.head_chunks;
  tiles.z.fixed = s.column_chunks;
  k.stage(tiles, [&](Emitter &e, StageFrame &frame) { TileKernel(e, frame, s).emit(); });
}

} // namespace smelt::codegen::cuda
