// Attention of short steps over the cache: flash decoding, the positions of a sequence split among blocks.
//
// A block takes one token, the query heads of one kv head (at most 4 of them) and one span of positions. A
// lane keeps 8 dimensions of a head and works on the positions of its group of lanes, whose keys and values
// it reads in 16-byte pieces, neighbouring positions side by side; softmax is online, per group of lanes, and
// merged at the end: among lanes by shuffles, among warps through shared memory, among blocks by the last of
// them to arrive. How a sequence is split depends on its length and the capacity alone.
#include "compiler/Codegen/CUDA/Kernels.h"
#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t WARPS = 8, THREADS = WARPS * WARP;
constexpr int64_t CHUNK = 8;           // dimensions of a lane: 16 bytes of the cache
constexpr int64_t HEADS_AT_ONCE = 4;   // query heads of a block
constexpr int64_t STEPS = 4;           // positions of a lane per iteration
constexpr int64_t SPAN = 64;           // fewest positions worth a block
constexpr int64_t BLOCKS_WANTED = 264; // for one token: two for each multiprocessor of the largest devices
constexpr int64_t MOST_SPLITS = 32;
constexpr double NO_SCORE = -1e30; // less than any score; finite, so that differences are

struct Shapes {
  explicit Shapes(const KernelBuilder &kernel)
      : query(kernel.param("query_heads")), kv(kernel.param("kv_heads")), dim(kernel.param("head_dim")),
        stride(rowStride(dim)) {
    lanes =
        std::min<int64_t>(WARP, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(stride / CHUNK))));
    chunks = (stride / CHUNK + lanes - 1) / lanes;
    perKv = query / kv;
    int64_t atOnce = std::max<int64_t>(1, HEADS_AT_ONCE / chunks);
    groups = (perKv + atOnce - 1) / atOnce;
    heads = (perKv + groups - 1) / groups;
    splits = std::clamp<int64_t>((BLOCKS_WANTED + kv * groups - 1) / (kv * groups), 1, MOST_SPLITS);
  }
  int64_t positionsAtOnce() const { return WARP / lanes; } // of a warp
  int64_t batch() const { return positionsAtOnce() * STEPS; }
  int64_t rows() const { return kv * groups; }            // blocks of a token and span
  int64_t record() const { return heads * (stride + 2); } // floats a block leaves: maxima, sums, outputs

  int64_t query, kv, dim, stride;
  int64_t perKv, groups, heads; // query heads of a kv head, in groups of `heads`
  int64_t lanes, chunks;        // lanes that share a position, pieces a lane takes of it
  int64_t splits;               // at most
};

class Attention {
public:
  Attention(Emitter &e, StageFrame &frame, const Shapes &s) : e(e), frame(frame), s(s) {}
  void emit();

private:
  struct State {
    Values maxima, sums, outputs; // by head; outputs by head, piece and dimension
    Values all() const {
      Values values(maxima);
      values.append(sums);
      values.append(outputs);
      return values;
    }
    void set(ValueRange values) {
      size_t at = 0;
      for (Values *part : {&maxima, &sums, &outputs}) {
        for (Value &value : *part) {
          value = values[at++];
        }
      }
    }
  };
  int64_t outputsPerHead() const { return s.chunks * CHUNK; }
  Value chunkOf(int64_t piece) { return e.add(e.rem(e.lane(), s.lanes), piece * s.lanes); }
  Values loadQueries();
  Values loadRow(Value slot, Value position);
  void step(ValueRange queries, Value begin, Value end, Value first, State &state);
  void mergeLanes(State &state);
  void storeWarp(const State &state);
  void combineWarps();
  void finishToken();
  Value headOf(Value g) { return e.add(e.add(e.mul(kvHead, s.perKv), e.mul(group, s.heads)), g); }
  // Whether the g-th head of this block exists: the last group may be short.
  Value exists(Value g) { return e.less(e.add(e.mul(group, s.heads), g), s.perKv); }
  void writeOutput(Value g, Value dim, Value value);

  Emitter &e;
  StageFrame &frame;
  const Shapes &s;
  Value token, kvHead, group, split, active, sequence, perSplit;
  Value warpMaxima, warpSums, warpOutputs; // shared memory, by warp
  Value records;                           // of this token and row of blocks, in scratch
};

Values Attention::loadQueries() {
  double scale = 1.4426950408889634 / std::sqrt(static_cast<double>(s.dim)); // scores are powers of two
  Type pair = e.vec(e.f32(), 2);
  Value row = e.row(frame.binding(0), e.f32(), token, s.query * s.dim);
  Values queries;
  for (int64_t g = 0; g < s.heads; ++g) {
    // A head beyond the last of the group repeats it.
    Value inGroup = e.min(e.add(e.mul(group, s.heads), g), s.perKv - 1);
    Value head = e.row(row, e.f32(), e.add(e.mul(kvHead, s.perKv), inGroup), s.dim);
    for (int64_t piece = 0; piece < s.chunks; ++piece) {
      for (int64_t i = 0; i < CHUNK; i += 2) {
        Value dim = e.add(e.mul(chunkOf(piece), CHUNK), i), valid = e.less(dim, s.dim);
        Value two = e.loadReadOnly(pair, e.at(head, e.f32(), e.min(dim, s.dim - 2)), 8);
        for (int64_t j = 0; j < 2; ++j) {
          queries.push_back(e.select(valid, e.mulf(e.element(two, j), e.f(scale)), e.f(0)));
        }
      }
    }
  }
  return queries;
}

// This lane's pieces of a position's row.
Values Attention::loadRow(Value slot, Value position) {
  Value line =
      e.add(e.mul(e.add(e.mul(e.widen(sequence), s.kv), e.widen(kvHead)), e.widen(frame.constantInt(1))),
            e.widen(position));
  Value row = e.row(slot, e.bf16(), line, s.stride);
  Values words;
  for (int64_t piece = 0; piece < s.chunks; ++piece) {
    // Lanes without a piece read the last one and multiply it by zero.
    Value chunk = e.min(chunkOf(piece), s.stride / CHUNK - 1);
    words.append(e.stream(e.at(row, e.bf16(), e.mul(chunk, CHUNK))));
  }
  return words;
}

void Attention::step(ValueRange queries, Value begin, Value end, Value first, State &state) {
  llvm::SmallVector<Values> keys, values;
  Values valid;
  for (int64_t u = 0; u < STEPS; ++u) {
    Value position = e.add(first, e.add(e.div(e.lane(), s.lanes), u * s.positionsAtOnce()));
    valid.push_back(e.less(position, end));
    Value safe = e.min(position, e.sub(end, 1));
    keys.push_back(loadRow(frame.binding(3), safe));
    values.push_back(loadRow(frame.binding(4), safe));
  }
  auto number = [&](const Values &words, int64_t i) {
    return i % 2 ? e.high(words[i / 2]) : e.low(words[i / 2]);
  };
  int64_t width = outputsPerHead();
  for (int64_t g = 0; g < s.heads; ++g) {
    Values scores;
    Value maximum = state.maxima[g];
    for (int64_t u = 0; u < STEPS; ++u) {
      Value score = e.f(0);
      for (int64_t i = 0; i < width; ++i) {
        score = e.fma(queries[g * width + i], number(keys[u], i), score);
      }
      score = e.select(valid[u], e.warpSum(score, s.lanes), e.f(NO_SCORE));
      maximum = e.maxf(maximum, score);
      scores.push_back(score);
    }
    Value correction = e.exp2(e.subf(state.maxima[g], maximum));
    state.maxima[g] = maximum;
    state.sums[g] = e.mulf(state.sums[g], correction);
    for (int64_t i = 0; i < width; ++i) {
      state.outputs[g * width + i] = e.mulf(state.outputs[g * width + i], correction);
    }
    for (int64_t u = 0; u < STEPS; ++u) {
      Value weight = e.select(valid[u], e.exp2(e.subf(scores[u], maximum)), e.f(0));
      state.sums[g] = e.addf(state.sums[g], weight);
      for (int64_t i = 0; i < width; ++i) {
        Value &output = state.outputs[g * width + i];
        output = e.fma(weight, number(values[u], i), output);
      }
    }
  }
}

// Sums over the groups of lanes of a warp.
void Attention::mergeLanes(State &state) {
  int64_t groupsOfLanes = s.positionsAtOnce(), width = outputsPerHead();
  for (int64_t g = 0; g < s.heads; ++g) {
    Value maximum = e.warpMax(state.maxima[g], groupsOfLanes, s.lanes);
    Value correction = e.exp2(e.subf(state.maxima[g], maximum));
    state.maxima[g] = maximum;
    state.sums[g] = e.warpSum(e.mulf(state.sums[g], correction), groupsOfLanes, s.lanes);
    for (int64_t i = 0; i < width; ++i) {
      Value &output = state.outputs[g * width + i];
      output = e.warpSum(e.mulf(output, correction), groupsOfLanes, s.lanes);
    }
  }
}

void Attention::storeWarp(const State &state) {
  Value base = e.mul(e.warp(), s.heads);
  e.when(e.equal(e.lane(), 0), [&] {
    for (int64_t g = 0; g < s.heads; ++g) {
      e.storeF32(state.maxima[g], warpMaxima, e.add(base, g));
      e.storeF32(state.sums[g], warpSums, e.add(base, g));
    }
  });
  for (int64_t piece = 0; piece < s.chunks; ++piece) {
    Value writes = e.both(e.less(e.lane(), s.lanes), e.less(chunkOf(piece), s.stride / CHUNK));
    e.when(writes, [&] {
      for (int64_t g = 0; g < s.heads; ++g) {
        Value row = e.row(warpOutputs, e.f32(), e.add(base, g), s.stride);
        for (int64_t i = 0; i < CHUNK; i += 4) {
          const Value *quad = state.outputs.data() + g * outputsPerHead() + piece * CHUNK + i;
          Value column = e.add(e.mul(chunkOf(piece), CHUNK), i);
          e.store(e.vectorOf(ValueRange(llvm::ArrayRef<Value>(quad, 4))), e.at(row, e.f32(), column), 16);
        }
      }
    });
  }
}

void Attention::writeOutput(Value g, Value dim, Value value) {
  e.when(e.both(exists(g), e.less(dim, s.dim)), [&] {
    Value row = e.row(frame.binding(5), e.f32(), token, s.query * s.dim);
    e.storeF32(value, row, e.add(e.mul(headOf(g), s.dim), dim));
  });
}

// Sums over the warps of the block: the token's result when there is no other block, else a record for the
// last.
void Attention::combineWarps() {
  Value alone = e.equal(active, 1);
  Value record = e.row(records, e.f32(), split, s.record());
  e.loop(e.thread(), e.c(s.heads * s.stride), THREADS, [&](Value item) {
    Value g = e.div(item, s.stride), dim = e.rem(item, s.stride);
    Values maxima;
    Value maximum = e.f(NO_SCORE);
    for (int64_t w = 0; w < WARPS; ++w) {
      maxima.push_back(e.loadF32(warpMaxima, e.add(g, w * s.heads)));
      maximum = e.maxf(maximum, maxima.back());
    }
    Value sum = e.f(0), output = e.f(0);
    for (int64_t w = 0; w < WARPS; ++w) {
      Value correction = e.exp2(e.subf(maxima[w], maximum));
      sum = e.fma(e.loadF32(warpSums, e.add(g, w * s.heads)), correction, sum);
      output = e.fma(e.loadF32(warpOutputs, e.add(item, w * s.heads * s.stride)), correction, output);
    }
    e.choose(
        alone,
        [&] {
          writeOutput(g, dim, e.mulf(output, e.rcp(sum)));
          return Values();
        },
        [&] {
          e.storeF32(output, record, e.add(item, 2 * s.heads));
          e.when(e.equal(dim, 0), [&] {
            e.storeF32(maximum, record, g);
            e.storeF32(sum, record, e.add(g, s.heads));
          });
          return Values();
        });
  });
}

// Sums over the blocks of the token, by the last of them.
void Attention::finishToken() {
  constexpr int64_t atOnce = 8; // records in flight
  // Maxima and sums of all records at once, then what each record counts for.
  Value factors = warpOutputs, sums = e.at(factors, e.f32(), s.splits * s.heads);
  e.loop(e.thread(), e.mul(active, s.heads), THREADS, [&](Value item) {
    Value record = e.row(records, e.f32(), e.div(item, s.heads), s.record());
    Value g = e.rem(item, s.heads);
    e.storeF32(e.loadF32(record, g), factors, item);
    e.storeF32(e.loadF32(record, e.add(g, s.heads)), sums, item);
  });
  e.barrier();
  e.loop(e.thread(), e.c(s.heads * s.stride), THREADS, [&](Value item) {
    Value g = e.div(item, s.stride), dim = e.rem(item, s.stride);
    Value maximum = e.loop(e.c(0), active, e.c(1), {e.f(NO_SCORE)}, [&](Value r, ValueRange in) {
      return Values{e.maxf(in[0], e.loadF32(factors, e.add(e.mul(r, s.heads), g)))};
    })[0];
    Value base = e.at(records, e.f32(), e.add(item, 2 * s.heads));
    Values result = e.loop(e.c(0), active, e.c(atOnce), {e.f(0), e.f(0)}, [&](Value first, ValueRange in) {
      Values outputs, numbers;
      for (int64_t r = 0; r < atOnce; ++r) {
        numbers.push_back(e.min(e.add(first, r), e.sub(active, 1)));
        outputs.push_back(e.load(e.f32(), e.row(base, e.f32(), numbers.back(), s.record()), 4));
      }
      Value sum = in[0], output = in[1];
      for (int64_t r = 0; r < atOnce; ++r) {
        Value at = e.add(e.mul(numbers[r], s.heads), g);
        Value factor = e.exp2(e.subf(e.loadF32(factors, at), maximum));
        factor = e.select(e.less(e.add(first, r), active), factor, e.f(0));
        sum = e.fma(e.loadF32(sums, at), factor, sum);
        output = e.fma(outputs[r], factor, output);
      }
      return Values{sum, output};
    });
    writeOutput(g, dim, e.mulf(result[1], e.rcp(result[0])));
  });
}

void Attention::emit() {
  token = e.block(2);
  kvHead = e.div(e.block(0), s.groups);
  group = e.rem(e.block(0), s.groups);
  split = e.block(1);
  Value length = e.add(e.readI32(frame.binding(1), token), 1);
  sequence = e.readI32(frame.binding(2), token);
  Value splits = e.blocks(1);
  // Whole iterations of a block's warps would waste less, but shorter spans keep more blocks busy.
  perSplit = e.max(e.div(e.add(length, e.sub(splits, 1)), splits), SPAN);
  active = e.div(e.add(length, e.sub(perSplit, 1)), perSplit);

  Value flag = frame.shared(4);
  warpMaxima = frame.shared(4 * WARPS * s.heads);
  warpSums = frame.shared(4 * WARPS * s.heads);
  warpOutputs = frame.shared(4 * std::max(WARPS * s.heads * s.stride, 2 * s.splits * s.heads));
  Value row = e.add(e.mul(token, s.rows()), e.block(0));
  records = e.row(frame.scratch(), e.f32(), row, s.splits * s.record());

  e.when(e.less(split, active), [&] {
    Value begin = e.mul(split, perSplit), end = e.min(e.add(begin, perSplit), length);
    Values queries = loadQueries();
    State state;
    state.maxima.assign(s.heads, e.f(NO_SCORE));
    state.sums.assign(s.heads, e.f(0));
    state.outputs.assign(s.heads * outputsPerHead(), e.f(0));
    Value first = e.add(begin, e.mul(e.warp(), s.batch()));
    state.set(e.loop(first, end, e.c(WARPS * s.batch()), state.all(), [&](Value at, ValueRange in) {
      State inner = state;
      inner.set(in);
      step(queries, begin, end, at, inner);
      return inner.all();
    }));
    mergeLanes(state);
    storeWarp(state);
    e.barrier();
    combineWarps();
    e.when(e.less(e.c(1), active), [&] {
      Value last = e.lastToArrive(frame.ticket(row), active, flag);
      e.when(last, [&] { finishToken(); });
    });
  });
}

} // namespace

void emitAttentionShort(KernelBuilder &kernel) {
  Shapes shapes(kernel);
  if (!kernel.has("kv")) {
    return kernel.fail("the cache must be in rows (kv = 1)");
  }
  if (shapes.rows() * SHORT_STEP_TOKENS > TICKETS) {
    return kernel.fail("more kv heads than tickets: " + std::to_string(shapes.kv));
  }
  kernel.parameters(6, 2);
  kernel.result.scratch.per_token = 4 * shapes.rows() * shapes.splits * shapes.record();
  StageShape launch{.x = {.fixed = shapes.rows()},
                    .y = {.fixed = 0, .per_position = 1, .divisor = SPAN, .limit = shapes.splits},
                    .z = {.fixed = 0, .per_token = 1},
                    .threads = THREADS,
                    // Rows as long as a warp's load take more registers.
                    .min_blocks = shapes.lanes < WARP ? 2 : 1};
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) { Attention(e, frame, shapes).emit(); });
}

} // namespace smelt::codegen::cuda
