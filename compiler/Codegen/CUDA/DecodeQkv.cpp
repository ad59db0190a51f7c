// RMSNorm, QKV projection, norm of queries and keys, rotation and cache append in one kernel of short steps.
#include "compiler/Codegen/CUDA/DecodeGemv.h"
#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <algorithm>
#include <optional>

namespace smelt::codegen::cuda {

namespace {

enum class QkNorm { none = 0, perHead = 1, fullWidth = 2 };

// Shapes and arguments of the role; rows of a head come in pairs (i, i + head_dim / 2), which rotate
// together.
struct Qkv {
  explicit Qkv(const KernelBuilder &kernel)
      : in(kernel.param("in")), query(kernel.param("query_heads")), kv(kernel.param("kv_heads")),
        dim(kernel.param("head_dim")), qkNorm(static_cast<QkNorm>(kernel.param("qk_norm"))),
        bias(kernel.has("bias")) {
    unsigned next = bias ? 8 : 5;
    qNorm = next;
    next += qkNorm != QkNorm::none ? 2 : 0;
    positions = next;
    bindings = next + 6;
  }

  int64_t half() const { return dim / 2; }
  int64_t heads() const { return query + 2 * kv; }
  int64_t cacheStride() const { return rowStride(dim); }

  int64_t in, query, kv, dim;
  QkNorm qkNorm;
  bool bias;
  unsigned qNorm, positions, bindings; // positions, then sequence ids, rope table, q_out, k slot, v slot
};

// A head of q, k or v, numbered in this order.
struct Head {
  Head(Emitter &e, const Qkv &s, Value head)
      : isQuery(e.less(head, s.query)), isValue(e.greaterEqual(head, s.query + s.kv)) {
    Value keyHead = e.sub(head, s.query), valueHead = e.sub(head, s.query + s.kv);
    within = e.select(isQuery, head, e.select(isValue, valueHead, keyHead));
  }
  // What of three values belongs to the head.
  Value of(Emitter &e, Value q, Value k, Value v) const {
    return e.select(isQuery, q, e.select(isValue, v, k));
  }
  Value isQuery, isValue, within;
};

// Where a token goes.
struct Place {
  Place(Emitter &e, StageFrame &frame, const Qkv &s, Value token)
      : token(token), position(e.readI32(frame.binding(s.positions), token)),
        sequence(e.readI32(frame.binding(s.positions + 1), token)) {}
  // Cosine and sine of pair i.
  std::pair<Value, Value> angle(Emitter &e, StageFrame &frame, const Qkv &s, Value i) const {
    Value row = e.row(frame.binding(s.positions + 2), e.f32(), position, s.dim);
    return {e.readF32(row, i), e.readF32(row, e.add(i, s.half()))};
  }
  Value token, position, sequence;
};

// Rotates a pair and stores it where the head keeps it.
void storePair(Emitter &e, StageFrame &frame, const Qkv &s, const Head &head, const Place &place, Value i,
               Value first, Value second, std::pair<Value, Value> angle) {
  auto [cosine, sine] = angle;
  Value a = e.subf(e.mulf(first, cosine), e.mulf(second, sine));
  Value b = e.fma(second, cosine, e.mulf(first, sine));
  first = e.select(head.isValue, first, a);
  second = e.select(head.isValue, second, b);
  e.choose(
      head.isQuery,
      [&] {
        Value row = e.row(frame.binding(s.positions + 3), e.f32(), place.token, s.query * s.dim);
        Value column = e.add(e.mul(head.within, s.dim), i);
        e.storeF32(first, row, column);
        e.storeF32(second, row, e.add(column, s.half()));
        return Values();
      },
      [&] {
        Value slot = e.select(head.isValue, frame.binding(s.positions + 5), frame.binding(s.positions + 4));
        Value capacity = e.widen(frame.constantInt(1));
        Value line = e.add(e.mul(e.widen(place.sequence), s.kv), e.widen(head.within));
        line = e.add(e.mul(line, capacity), e.widen(place.position));
        Value row = e.row(slot, e.bf16(), line, s.cacheStride());
        e.store(e.toBf16(first), e.at(row, e.bf16(), i), 2);
        e.store(e.toBf16(second), e.at(row, e.bf16(), e.add(i, s.half())), 2);
        return Values();
      });
}

Value weightRow(Emitter &e, StageFrame &frame, const Qkv &s, const Head &head, Value row) {
  Value weight = head.of(e, frame.binding(2), frame.binding(3), frame.binding(4));
  return e.row(weight, e.bf16(), e.add(e.mul(head.within, s.dim), row), rowStride(s.in));
}
Value biasOf(Emitter &e, StageFrame &frame, const Qkv &s, const Head &head, Value row) {
  Value bias = head.of(e, frame.binding(5), frame.binding(6), frame.binding(7));
  return e.readBf16(bias, e.add(e.mul(head.within, s.dim), row));
}

GemvInput inputOf(StageFrame &frame) {
  return {.x = frame.binding(0),
          .tokens = frame.constantInt(0),
          .norm = frame.binding(1),
          .epsilon = frame.constantFloat(2)};
}

// Queries and keys that are normalised over their whole width: the raw ones of all blocks wait for the last
// of them, queries where they go, keys in scratch.
class FullWidth {
public:
  FullWidth(Emitter &e, StageFrame &frame, const Qkv &s, const GemvShape &shape)
      : e(e), frame(frame), s(s), shape(shape), flag(frame.shared(4)),
        squares(frame.shared(4 * 2 * SHORT_STEP_TOKENS * shape.warps)) {}

  // Elements (i, i + half) of a head.
  void storeRaw(const Head &head, const Place &place, Value i, Value first, Value second) {
    Value row = e.select(head.isQuery, queries(place.token), keys(place.token));
    Value column = e.add(e.mul(head.within, s.dim), i);
    e.storeF32(first, row, column);
    e.storeF32(second, row, e.add(column, s.half()));
  }

  // By all threads of all blocks, after the raw ones.
  void finish() {
    Value last = e.lastToArrive(frame.ticket(0), e.blocks(0), flag);
    e.when(last, [&] {
      Value tokens = frame.constantInt(0);
      e.loop(e.c(0), tokens, 1, [&](Value token) { addSquares(token); });
      e.barrier();
      e.loop(e.c(0), tokens, 1, [&](Value token) { normalise(token); });
    });
  }

private:
  Value queries(Value token) {
    return e.row(frame.binding(s.positions + 3), e.f32(), token, s.query * s.dim);
  }
  Value keys(Value token) { return e.row(frame.scratch(), e.f32(), token, s.kv * s.dim); }
  // By side (0: query) and token, one of each warp.
  Value squaresOf(int64_t side, Value token) {
    return e.row(squares, e.f32(), e.add(token, side * SHORT_STEP_TOKENS), shape.warps);
  }

  void addSquares(Value token) {
    for (int64_t side = 0; side < 2; ++side) {
      Value row = side == 0 ? queries(token) : keys(token);
      Value width = e.c((side == 0 ? s.query : s.kv) * s.dim);
      Value sum = e.loop(e.thread(), width, e.c(shape.threads()), {e.f(0)}, [&](Value i, ValueRange sum) {
        Value x = e.loadF32(row, i);
        return Values{e.fma(x, x, sum[0])};
      })[0];
      sum = e.warpSum(sum);
      e.when(e.equal(e.lane(), 0), [&] { e.storeF32(sum, squaresOf(side, token), e.warp()); });
    }
  }

  Value inverseRms(int64_t side, Value token) {
    Value sum = e.f(0);
    for (int64_t warp = 0; warp < shape.warps; ++warp) {
      sum = e.addf(sum, e.loadF32(squaresOf(side, token), e.c(warp)));
    }
    auto width = static_cast<double>((side == 0 ? s.query : s.kv) * s.dim);
    return e.rsqrt(e.fma(sum, e.f(1.0 / width), frame.constantFloat(3)));
  }

  void normalise(Value token) {
    Place place(e, frame, s, token);
    Value inverses[] = {inverseRms(0, token), inverseRms(1, token)};
    Value pairs = e.c((s.query + s.kv) * s.half());
    e.loop(e.thread(), pairs, e.c(shape.threads()), [&](Value pair) {
      Head head(e, s, e.div(pair, s.half()));
      Value i = e.rem(pair, s.half());
      Value row = e.select(head.isQuery, queries(token), keys(token));
      Value weights = e.select(head.isQuery, frame.binding(s.qNorm), frame.binding(s.qNorm + 1));
      Value inverse = e.select(head.isQuery, inverses[0], inverses[1]);
      Values values;
      for (Value at : {i, e.add(i, s.half())}) {
        Value column = e.add(e.mul(head.within, s.dim), at);
        values.push_back(e.mulf(e.mulf(e.loadF32(row, column), inverse), e.readBf16(weights, column)));
      }
      storePair(e, frame, s, head, place, i, values[0], values[1], place.angle(e, frame, s, i));
    });
  }

  Emitter &e;
  StageFrame &frame;
  const Qkv &s;
  const GemvShape &shape;
  Value flag, squares;
};

// A pair of rows a warp.
void emitPairs(KernelBuilder &kernel, const Qkv &s) {
  int64_t pairs = s.heads() * s.half();
  GemvShape shape{.in = s.in, .rows = 2};
  StageShape launch{.x = {.fixed = pairs, .divisor = shape.warps}, .threads = shape.threads()};
  if (s.qkNorm == QkNorm::fullWidth) {
    kernel.result.scratch.per_token = 4 * s.kv * s.dim;
  }
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) {
    std::optional<FullWidth> full;
    if (s.qkNorm == QkNorm::fullWidth) {
      full.emplace(e, frame, s, shape);
    }
    Gemv gemv(e, frame, shape, inputOf(frame));
    Value number = e.add(e.mul(e.block(0), shape.warps), e.warp());
    Value pair = e.min(number, pairs - 1);
    Head head(e, s, e.div(pair, s.half()));
    Value i = e.rem(pair, s.half()), j = e.add(i, s.half());
    std::optional<Place> place;
    std::pair<Value, Value> angle;
    Values biases;
    Values rows = {weightRow(e, frame, s, head, i), weightRow(e, frame, s, head, j)};
    Values sums = gemv.multiply(rows, [&] {
      place.emplace(e, frame, s, gemv.laneToken());
      angle = place->angle(e, frame, s, i);
      if (s.bias) {
        biases = {biasOf(e, frame, s, head, i), biasOf(e, frame, s, head, j)};
      }
    });
    for (size_t r = 0; r < biases.size(); ++r) {
      sums[r] = e.addf(sums[r], biases[r]);
    }
    auto store = [&] {
      storePair(e, frame, s, head, *place, i, sums[0], sums[1], angle);
      return Values();
    };
    e.when(e.both(gemv.laneActive(), e.less(number, pairs)), [&] {
      if (!full) {
        store();
        return;
      }
      e.choose(head.isValue, store, [&] {
        full->storeRaw(head, *place, i, sums[0], sums[1]);
        return Values();
      });
    });
    if (full) {
      full->finish();
    }
  });
}

// A block a head, whose rows meet in shared memory, because the norm of a head needs all of them.
void emitHeads(KernelBuilder &kernel, const Qkv &s) {
  constexpr int64_t pairsAtOnce = 1;
  GemvShape shape{.in = s.in, .rows = 2 * pairsAtOnce, .warps = 8, .stepwise = true};
  int64_t perRound = shape.warps * pairsAtOnce, rounds = (s.half() + perRound - 1) / perRound;
  StageShape launch{.x = {.fixed = s.heads()}, .threads = shape.threads()};
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) {
    Gemv gemv(e, frame, shape, inputOf(frame));
    Value rows = frame.shared(4 * SHORT_STEP_TOKENS * s.dim);
    Head head(e, s, e.block(0));
    auto round = [&](int64_t n, Value number, bool restage) {
      Value first = e.mul(e.add(e.mul(number, shape.warps), e.warp()), pairsAtOnce);
      Values addresses, indices;
      for (int64_t p = 0; p < pairsAtOnce; ++p) {
        indices.push_back(e.add(first, p));
        Value i = e.min(indices.back(), s.half() - 1);
        addresses.push_back(weightRow(e, frame, s, head, i));
        addresses.push_back(weightRow(e, frame, s, head, e.add(i, s.half())));
      }
      Values sums = gemv.multiply(n, addresses, gemv.prefetch(addresses), restage);
      Value row = e.row(rows, e.f32(), gemv.laneToken(), s.dim);
      for (int64_t p = 0; p < pairsAtOnce; ++p) {
        e.when(e.both(gemv.laneActive(), e.less(indices[p], s.half())), [&] {
          for (int64_t side = 0; side < 2; ++side) {
            Value i = e.add(indices[p], side * s.half());
            Value sum = sums[2 * p + side];
            e.storeF32(s.bias ? e.addf(sum, biasOf(e, frame, s, head, i)) : sum, row, i);
          }
        });
      }
    };
    gemv.forTokenCount([&](int64_t n) {
      round(n, e.c(0), false);
      if (rounds > 1) {
        e.loop(e.c(1), e.c(rounds), 1, [&](Value number) { round(n, number, true); });
      }
      return Values();
    });
    e.barrier();
    // A warp a token.
    e.loop(e.warp(), frame.constantInt(0), e.c(shape.warps), [&](Value token) {
      Value row = e.row(rows, e.f32(), token, s.dim);
      Value squares = e.loop(e.lane(), e.c(s.dim), e.c(WARP), {e.f(0)}, [&](Value i, ValueRange sum) {
        Value x = e.loadF32(row, i);
        return Values{e.fma(x, x, sum[0])};
      })[0];
      Value mean = e.mulf(e.warpSum(squares), e.f(1.0 / static_cast<double>(s.dim)));
      Value inverse = e.rsqrt(e.addf(mean, frame.constantFloat(3)));
      Place place(e, frame, s, token);
      e.loop(e.lane(), e.c(s.half()), e.c(WARP), [&](Value i) {
        Values pair;
        for (Value at : {i, e.add(i, s.half())}) {
          Value weight =
              e.readBf16(e.select(head.isQuery, frame.binding(s.qNorm), frame.binding(s.qNorm + 1)), at);
          Value x = e.loadF32(row, at);
          pair.push_back(e.select(head.isValue, x, e.mulf(e.mulf(x, inverse), weight)));
        }
        storePair(e, frame, s, head, place, i, pair[0], pair[1], place.angle(e, frame, s, i));
      });
    });
  });
}

} // namespace

void emitNormQkvRope(KernelBuilder &kernel) {
  Qkv shapes(kernel);
  kernel.parameters(shapes.bindings, 4);
  if (shapes.qkNorm == QkNorm::perHead) {
    emitHeads(kernel, shapes);
  } else {
    emitPairs(kernel, shapes);
  }
}

} // namespace smelt::codegen::cuda
