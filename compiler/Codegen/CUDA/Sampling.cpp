// Choosing tokens from logits: the kernels argmax and sample, which end a step. What they compute is
// runtime/src/Sampler.h, to the last bit: all sums are of integers, whose order does not matter.
#include "compiler/Codegen/CUDA/Kernels.h"
#include "compiler/Codegen/CUDA/SamplingMath.h"
#include "compiler/Codegen/CUDA/TopK.h"
#include "runtime/include/smelt/artifact.h"

#include <bit>

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t CHUNK_THREADS = 256, PER_THREAD = 16, CHUNK = CHUNK_THREADS * PER_THREAD;
constexpr int64_t DRAW_WORDS = sizeof(smelt_draw) / 4;
constexpr int64_t NONE = -1; // as an index: no token

enum Binding : unsigned { LOGITS, DRAWS, TOKEN_IDS, POSITIONS, SAMPLED, BINDINGS };

// The largest key with the lowest index that has it, and the lowest index whose logit is not finite.
struct Peak {
  Value key, index, bad;
};

// What the stages leave for each other, by row: a Peak for each chunk, then, for sample, a weight for each
// token.
struct RowScratch {
  explicit RowScratch(int64_t vocab) : chunks((vocab + CHUNK - 1) / CHUNK) {}

  static constexpr int64_t PEAK_BYTES = 16;
  int64_t chunks;
  int64_t weightBytes = 0;

  int64_t bytes() const { return PEAK_BYTES * chunks + weightBytes; }
  Value peaks(Emitter &e, StageFrame &frame, Value row) const {
    return e.row(frame.scratch(), e.builder.getI8Type(), row, bytes());
  }
  Value weights(Emitter &e, StageFrame &frame, Value row) const {
    return e.at(peaks(e, frame, row), e.builder.getI8Type(), PEAK_BYTES * chunks);
  }
};

Value drawOf(Emitter &e, StageFrame &frame, Value row) {
  return e.row(frame.binding(DRAWS), e.i32(), row, DRAW_WORDS);
}
Value member(Emitter &e, Value draw, Type type, size_t offset, unsigned alignment) {
  return e.load(type, e.at(draw, e.builder.getI8Type(), int64_t(offset)), alignment);
}

Peak warpPeak(Emitter &e, const Peak &mine) {
  Value key = e.warpMaxUnsigned(mine.key);
  return {key, e.warpMinUnsigned(e.select(e.equal(mine.key, key), mine.index, e.c(NONE))),
          e.warpMinUnsigned(mine.bad)};
}
Peak better(Emitter &e, const Peak &a, const Peak &b) {
  Value wins =
      e.either(e.lessUnsigned(a.key, b.key), e.both(e.equal(a.key, b.key), e.lessUnsigned(b.index, a.index)));
  return {e.select(wins, b.key, a.key), e.select(wins, b.index, a.index),
          e.select(e.lessUnsigned(b.bad, a.bad), b.bad, a.bad)};
}
Peak loadPeak(Emitter &e, Value peaks, Value index) {
  Value place = e.row(peaks, e.i32(), index, 4);
  return {e.loadI32(place, e.c(0)), e.loadI32(place, e.c(1)), e.loadI32(place, e.c(2))};
}
void storePeak(Emitter &e, const Peak &peak, Value peaks, Value index) {
  Value place = e.row(peaks, e.i32(), index, 4);
  e.store(peak.key, place, 4);
  e.store(peak.index, e.at(place, e.i32(), 1), 4);
  e.store(peak.bad, e.at(place, e.i32(), 2), 4);
  e.store(e.c(0), e.at(place, e.i32(), 3), 4); // LLVM reads all four words at once
}
// Of `count` peaks, in every lane of the warp.
Peak peakOf(Emitter &e, Value peaks, int64_t count) {
  Values best =
      e.loop(e.lane(), e.c(count), e.c(WARP), {e.c(0), e.c(NONE), e.c(NONE)}, [&](Value i, ValueRange in) {
        Peak peak = better(e, {in[0], in[1], in[2]}, loadPeak(e, peaks, i));
        return Values{peak.key, peak.index, peak.bad};
      });
  return warpPeak(e, {best[0], best[1], best[2]});
}

// The tokens of this thread in its block's chunk; those beyond the last are the last again.
Values chunkTokens(Emitter &e, int64_t vocab) {
  Values tokens;
  for (int64_t i = 0; i < PER_THREAD; ++i) {
    Value token = e.add(e.add(e.mul(e.block(0), CHUNK), i * CHUNK_THREADS), e.thread());
    tokens.push_back(e.min(token, vocab - 1));
  }
  return tokens;
}

StageShape chunkShape(int64_t vocab) {
  return {.x = {.fixed = vocab, .divisor = CHUNK},
          .y = {.fixed = 0, .per_logit_row = 1},
          .threads = CHUNK_THREADS};
}

// Stage 0: the peak of every chunk.
void emitPeaks(KernelBuilder &kernel, const RowScratch &scratch, int64_t vocab) {
  kernel.stage(chunkShape(vocab), [&](Emitter &e, StageFrame &frame) {
    constexpr int64_t warps = CHUNK_THREADS / WARP;
    Value logits = e.row(frame.binding(LOGITS), e.f32(), e.block(1), vocab);
    Values tokens = chunkTokens(e, vocab), values;
    for (Value token : tokens) {
      values.push_back(e.readF32(logits, token));
    }
    Peak mine = {e.c(0), e.c(NONE), e.c(NONE)};
    for (auto [token, value] : llvm::zip(tokens, values)) {
      Value finite = e.less(e.andi(e.bits(value), 0x7fffffff), 0x7f800000);
      mine = better(e, mine, {keyOf(e, value), token, e.select(finite, e.c(NONE), token)});
    }
    mine = warpPeak(e, mine);
    Value shared = frame.shared(warps * RowScratch::PEAK_BYTES);
    e.when(e.equal(e.lane(), 0), [&] { storePeak(e, mine, shared, e.warp()); });
    e.barrier();
    e.when(e.equal(e.warp(), 0), [&] {
      Peak peak = peakOf(e, shared, warps);
      e.when(e.equal(e.lane(), 0),
             [&] { storePeak(e, peak, scratch.peaks(e, frame, e.block(1)), e.block(0)); });
    });
  });
}

// Hands out the row's token, by one thread.
void emitToken(Emitter &e, StageFrame &frame, Value row, Value token, Value bad) {
  Value fine = e.equal(bad, NONE);
  e.store(e.select(fine, token, e.xori(bad, -1)), e.at(frame.binding(SAMPLED), e.i32(), row), 4);
  Value draw = drawOf(e, frame, row);
  e.when(e.notEqual(member(e, draw, e.i32(), offsetof(smelt_draw, advance), 4), 0), [&] {
    Value id = e.at(frame.binding(TOKEN_IDS), e.i32(), row),
          position = e.at(frame.binding(POSITIONS), e.i32(), row);
    e.store(e.select(fine, token, e.c(0)), id, 4);
    e.store(e.add(e.load(e.i32(), position, 4), 1), position, 4);
    Value step = member(e, draw, e.i64(), offsetof(smelt_draw, step), 8);
    e.store(e.add(step, 1), e.at(draw, e.builder.getI8Type(), int64_t(offsetof(smelt_draw, step))), 8);
  });
}

// Tokens that take part in a draw: those with a key above `key`, and the first `ties` of those with this key,
// which weigh `tieWeight` each.
struct Kept {
  Value key, ties, tieWeight;
};

// The last stage of sample: one block a row.
class Chooser {
public:
  static constexpr int64_t THREADS = 512, WARPS = THREADS / WARP, BINS = 16, UNROLL = 4;

  Chooser(Emitter &e, StageFrame &frame, const RowScratch &scratch, int64_t vocab)
      : e(e), frame(frame), vocab(vocab), row(e.block(0)), draw(drawOf(e, frame, row)) {
    logits = e.row(frame.binding(LOGITS), e.f32(), row, vocab);
    weights = scratch.weights(e, frame, row);
    peak = peakOf(e, scratch.peaks(e, frame, row), scratch.chunks);
    best = logitOf(e, peak.key);
    inverseTemperature =
        member(e, draw, e.builder.getF64Type(), offsetof(smelt_draw, inverse_temperature), 8);
    bins = frame.shared(8 * BINS * THREADS);
    sums = frame.shared(8 * BINS);
    masses = frame.shared(8 * WARPS);
    tieCounts = frame.shared(4 * WARPS);
  }

  void run() {
    Value token = e.choose(
        e.equal(peak.bad, NONE), [&] { return Values{choose()}; }, [&] { return Values{e.c(0)}; })[0];
    e.barrier(); // all have read the row's smelt_draw
    e.when(e.equal(e.thread(), 0), [&] { emitToken(e, frame, row, token, peak.bad); });
  }

private:
  // A part of the vocabulary, with what is kept of the tokens before it.
  struct Span {
    Value begin;
    int64_t length;
    Value mass, ties;
  };

  Value choose() {
    Value topK = member(e, draw, e.i32(), offsetof(smelt_draw, top_k), 4);
    Value share = member(e, draw, e.i64(), offsetof(smelt_draw, share), 8);
    Value some = e.both(e.notEqual(topK, 0), e.lessUnsigned(topK, e.c(vocab)));
    Span all = {e.c(0), vocab, e.c64(0), e.c(0)};
    Values kept = e.choose(
        some, [&] { return values(select(e.widen(topK), true)); },
        [&] { return Values{e.c(0), e.c(0), e.c64(0)}; });
    measure(all, keptOf(kept));
    Value total = totalOf(keptOf(kept));
    Values fewer = kept;
    fewer.push_back(total);
    fewer = e.choose(
        e.notEqual(share, 0),
        [&] {
          Kept most = select(e.max(e.mulHigh(share, total), 1), false);
          measure(all, most);
          Values result = values(most);
          result.push_back(totalOf(most));
          return result;
        },
        [&] { return fewer; });
    Value seed = member(e, draw, e.i64(), offsetof(smelt_draw, seed), 8);
    Value stream = member(e, draw, e.i64(), offsetof(smelt_draw, stream), 8);
    Value step = member(e, draw, e.i64(), offsetof(smelt_draw, step), 8);
    return draw64(all, keptOf(fewer), e.mulHigh(randomBits(e, seed, stream, step), fewer[3]));
  }

  static Values values(const Kept &kept) { return {kept.key, kept.ties, kept.tieWeight}; }
  static Kept keptOf(ValueRange values) { return {values[0], values[1], values[2]}; }

  // The token up to which the kept tokens weigh more than the target.
  Value draw64(Span span, const Kept &kept, Value target) {
    for (bool measured = true; span.length > WARP; measured = false) {
      if (!measured) {
        measure(span, kept);
      }
      span = part(span, kept, target);
    }
    Value token = e.add(span.begin, e.lane());
    auto [key, weight] = tokenAt(token);
    Value inside = e.less(token, vocab), tie = e.both(inside, e.equal(key, kept.key));
    Value before = e.andi(e.ballot(tie), e.sub(e.shl(e.c(1), e.lane()), 1));
    Value rank = e.add(span.ties, e.popCount(before));
    Value takes =
        e.both(inside, e.either(e.lessUnsigned(kept.key, key), e.both(tie, e.less(rank, kept.ties))));
    Value sum = e.select(takes, weight, e.c64(0));
    for (int64_t delta = 1; delta < WARP; delta *= 2) {
      Value low = e.shuffleUp(e.narrow(sum), delta), high = e.shuffleUp(e.narrow(e.shr(sum, 32)), delta);
      Value below = e.ori(e.widenUnsigned(low), e.shl(e.widenUnsigned(high), 32));
      sum = e.select(e.less(e.lane(), delta), sum, e.add(sum, below));
    }
    // Sums rise with the lane: as many lanes have not reached the target as tokens come before the one
    // wanted.
    Value reached = e.ballot(e.less(target, e.add(span.mass, sum)));
    return e.add(span.begin, e.popCount(e.xori(reached, -1)));
  }

  std::pair<Value, Value> tokenAt(Value token) {
    Value place = e.min(token, vocab - 1);
    return {keyOf(e, e.readF32(logits, place)), e.load(e.i64(), e.at(weights, e.i64(), place), 8)};
  }

  static int64_t partLength(int64_t length) { return (length + WARPS * WARP - 1) / (WARPS * WARP) * WARP; }

  // What each warp's part of the span holds, in shared memory: the weight above kept.key, and the number of
  // ties.
  void measure(const Span &span, const Kept &kept) {
    int64_t length = partLength(span.length), step = WARP * UNROLL;
    Value begin = e.add(span.begin, e.mul(e.warp(), length));
    Value end = e.min(e.add(begin, length), vocab);
    Values found =
        e.loop(e.add(begin, e.lane()), end, e.c(step), {e.c64(0), e.c(0)}, [&](Value i, ValueRange in) {
          Value mass = in[0], ties = in[1];
          llvm::SmallVector<std::pair<Value, Value>> tokens;
          for (int64_t u = 0; u < UNROLL; ++u) {
            tokens.push_back(tokenAt(e.add(i, u * WARP)));
          }
          for (int64_t u = 0; u < UNROLL; ++u) {
            auto [key, weight] = tokens[size_t(u)];
            Value inside = e.less(e.add(i, u * WARP), end);
            Value above = e.both(inside, e.lessUnsigned(kept.key, key));
            mass = e.add(mass, e.select(above, weight, e.c64(0)));
            ties = e.add(ties, e.select(e.both(inside, e.equal(key, kept.key)), e.c(1), e.c(0)));
          }
          return Values{mass, ties};
        });
    Value mass = e.warpSum64(found[0]), ties = e.warpSum(found[1]);
    e.barrier(); // of what was measured before, everything has been read
    e.when(e.equal(e.lane(), 0), [&] {
      e.store(mass, e.at(masses, e.i64(), e.warp()), 8);
      e.store(ties, e.at(tieCounts, e.i32(), e.warp()), 4);
    });
    e.barrier();
  }

  // Adds the kept of part `w`, of those measured, to mass and ties.
  void addPart(int64_t w, const Kept &kept, Value &mass, Value &ties) {
    Value count = e.load(e.i32(), e.at(tieCounts, e.i32(), w), 4);
    Value taken = e.max(e.min(e.sub(kept.ties, ties), count), 0);
    mass = e.add(e.add(mass, e.load(e.i64(), e.at(masses, e.i64(), w), 8)),
                 e.mul(e.widen(taken), kept.tieWeight));
    ties = e.add(ties, count);
  }
  Value totalOf(const Kept &kept) {
    Value mass = e.c64(0), ties = e.c(0);
    for (int64_t w = 0; w < WARPS; ++w) {
      addPart(w, kept, mass, ties);
    }
    return mass;
  }
  // The part, of those measured, that takes the sum beyond the target.
  Span part(const Span &span, const Kept &kept, Value target) {
    int64_t length = partLength(span.length);
    Span result = {span.begin, length, span.mass, span.ties};
    Value mass = span.mass, ties = span.ties;
    for (int64_t w = 0; w + 1 < WARPS; ++w) {
      addPart(w, kept, mass, ties);
      Value beyond = e.lessEqual(mass, target);
      result.begin = e.select(beyond, e.add(span.begin, (w + 1) * length), result.begin);
      result.mass = e.select(beyond, mass, result.mass);
      result.ties = e.select(beyond, ties, result.ties);
    }
    return result;
  }

  // The fewest tokens, in their order, that weigh `limit` together, or `limit` tokens. Digit by digit: a
  // histogram of the keys' next four bits, in columns of one thread each, of the keys that agree so far.
  Kept select(Value limit, bool byCount) {
    Values found = e.loop(e.c(0), e.c(8), e.c(1), {e.c(0), e.c64(0)}, [&](Value digit, ValueRange in) {
      Value shift = e.sub(e.c(28), e.mul(digit, 4)), prefix = in[0];
      for (int64_t b = 0; b < BINS; ++b) {
        e.store(e.c64(0), e.at(bins, e.i64(), e.add(e.thread(), b * THREADS)), 8);
      }
      e.loop(e.thread(), e.c(vocab), THREADS * UNROLL, [&](Value first) {
        Values tokens, keys;
        for (int64_t u = 0; u < UNROLL; ++u) {
          tokens.push_back(e.add(first, u * THREADS));
          keys.push_back(keyOf(e, e.readF32(logits, e.min(tokens.back(), vocab - 1))));
        }
        for (int64_t u = 0; u < UNROLL; ++u) {
          Value digits = e.shr(keys[u], shift); // a shift by 32 at once would be undefined
          e.when(e.both(e.less(tokens[u], vocab), e.equal(e.shr(digits, 4), prefix)), [&] {
            Value value = byCount ? e.c64(1) : e.load(e.i64(), e.at(weights, e.i64(), tokens[u]), 8);
            Value bin = e.at(bins, e.i64(), e.add(e.mul(e.andi(digits, 15), THREADS), e.thread()));
            e.store(e.add(e.load(e.i64(), bin, 8), value), bin, 8);
          });
        }
      });
      e.barrier();
      sumBins();
      e.barrier();
      return nextDigit(limit, prefix, in[1]);
    });
    Value key = found[0], missing = e.sub(limit, found[1]);
    Value tieWeight = tokenWeight(e, logitOf(e, key), best, inverseTemperature, shift());
    Value ties = byCount ? missing : e.div(e.add(missing, e.sub(tieWeight, 1)), tieWeight);
    return {key, e.narrow(ties), tieWeight};
  }

  void sumBins() { // a warp each
    Value sum = e.c64(0);
    for (int64_t i = 0; i < THREADS / WARP; ++i) {
      Value column = e.add(e.add(e.mul(e.warp(), THREADS), e.lane()), i * WARP);
      sum = e.add(sum, e.load(e.i64(), e.at(bins, e.i64(), column), 8));
    }
    sum = e.warpSum64(sum);
    e.when(e.equal(e.lane(), 0), [&] { e.store(sum, e.at(sums, e.i64(), e.warp()), 8); });
  }

  // The highest bin with which the sum of the bins above and `above` reaches the limit.
  Values nextDigit(Value limit, Value prefix, Value above) {
    Value running = above, digit = e.c(0);
    for (int64_t b = BINS - 1; b > 0; --b) { // that bin 0 does is certain
      running = e.add(running, e.load(e.i64(), e.at(sums, e.i64(), b), 8));
      // Of the sums that rise, those below the limit lie above the bin wanted.
      Value below = e.less(running, limit);
      above = e.select(below, running, above);
      digit = e.add(digit, e.select(below, e.c(0), e.c(1)));
    }
    return {e.ori(e.shl(prefix, 4), digit), above};
  }

  unsigned shift() const { return 62 - unsigned(std::bit_width(uint64_t(vocab))); }

  Emitter &e;
  StageFrame &frame;
  int64_t vocab;
  Value row, draw, logits, weights, best, inverseTemperature;
  Peak peak;
  Value bins, sums;        // shared i64[BINS][THREADS] and i64[BINS]
  Value masses, tieCounts; // shared i64[WARPS] and i32[WARPS]
};
static_assert(Chooser::BINS == Chooser::WARPS);

// What every token weighs.
void emitWeights(KernelBuilder &kernel, const RowScratch &scratch, int64_t vocab) {
  kernel.stage(chunkShape(vocab), [&](Emitter &e, StageFrame &frame) {
    Value row = e.block(1), draw = drawOf(e, frame, row);
    Value logits = e.row(frame.binding(LOGITS), e.f32(), row, vocab),
          weights = scratch.weights(e, frame, row);
    Value best = logitOf(e, peakOf(e, scratch.peaks(e, frame, row), scratch.chunks).key);
    Value inverse = member(e, draw, e.builder.getF64Type(), offsetof(smelt_draw, inverse_temperature), 8);
    unsigned shift = 62 - unsigned(std::bit_width(uint64_t(vocab)));
    e.loop(e.c(0), e.c(PER_THREAD), 1, [&](Value i) {
      Value token = e.add(e.add(e.mul(e.block(0), CHUNK), e.mul(i, CHUNK_THREADS)), e.thread());
      e.when(e.less(token, vocab), [&] {
        e.store(tokenWeight(e, e.readF32(logits, token), best, inverse, shift), e.at(weights, e.i64(), token),
                8);
      });
    });
  });
}

} // namespace

void emitArgmax(KernelBuilder &kernel) {
  int64_t vocab = kernel.param("vocab");
  RowScratch scratch(vocab);
  kernel.parameters(BINDINGS, 1);
  kernel.result.scratch.per_logit_row = scratch.bytes();
  emitPeaks(kernel, scratch, vocab);
  StageShape shape{.x = {.fixed = 0, .per_logit_row = 1}, .threads = WARP};
  kernel.stage(shape, [&](Emitter &e, StageFrame &frame) {
    Value row = e.block(0);
    Peak peak = peakOf(e, scratch.peaks(e, frame, row), scratch.chunks);
    e.when(e.equal(e.lane(), 0), [&] { emitToken(e, frame, row, peak.index, peak.bad); });
  });
}

void emitSample(KernelBuilder &kernel) {
  int64_t vocab = kernel.param("vocab");
  RowScratch scratch(vocab);
  scratch.weightBytes = 8 * ((vocab + 1) / 2 * 2);
  kernel.parameters(BINDINGS, 1);
  kernel.result.scratch.per_logit_row = scratch.bytes();
  emitPeaks(kernel, scratch, vocab);
  emitWeights(kernel, scratch, vocab);
  StageShape shape{.x = {.fixed = 0, .per_logit_row = 1}, .threads = Chooser::THREADS};
  kernel.stage(shape, [&](Emitter &e, StageFrame &frame) { Chooser(e, frame, scratch, vocab).run(); });
}

} // namespace smelt::codegen::cuda
