// rope_append (QK norm, RoPE, KV append) and attention (streaming softmax over the cache).
//
// The key cache is blocked by 16 positions, [S][kv_heads][C / 16][head_dim][16], so that 16 scores come from
// head_dim multiplications of full vectors whatever head_dim is; values are [S][kv_heads][C][head_dim].
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

constexpr int64_t kPositionBlock = 16;

// Shape of an attention layer and where its cache lines start.
struct AttentionShape {
  explicit AttentionShape(const KernelDesc &k)
      : query_heads(k.param("query_heads")), kv_heads(k.param("kv_heads")), head_dim(k.param("head_dim")) {}
  int64_t queryWidth() const { return query_heads * head_dim; }
  int64_t kvWidth() const { return kv_heads * head_dim; }
  // Element offset of (sequence, kv head) in either cache.
  Value cacheOffset(Emitter &e, Value sequence, Value head, Value capacity) const {
    return e.mul(e.mul(e.add(e.mul(sequence, kv_heads), head), capacity), head_dim);
  }
  int64_t query_heads, kv_heads, head_dim;
};

// The rotated form of one head: pairs (i, i + d/2) turned by the angle whose cosine and sine are in `rope`.
// scale is a factor of every element (the inverse RMS) and weight(begin, length) its norm weights.
struct Rotation {
  Value rope;                                               // f32[d]: cos[d/2], sin[d/2]
  Value scale;                                              // may be null
  std::function<Value(Value begin, int64_t length)> weight; // may be empty
};

void rotateHead(Emitter &e, Value from, Value to, int64_t headDim, const Rotation &r) {
  int64_t half = headDim / 2, lanes = e.lanes();
  auto read = [&](Value begin, int64_t length) {
    Value x = e.loadFirst(e.f32(), lanes, length, e.at(from, e.f32(), begin));
    if (r.scale) {
      x = e.mulf(e.mulf(x, e.splat(r.scale, lanes)), r.weight(begin, length));
    }
    return x;
  };
  e.forVectors(half, lanes, [&](Value begin, int64_t length) {
    Value upper = e.add(begin, half);
    Value a = read(begin, length), b = read(upper, length);
    Value cosine = e.loadFirst(e.f32(), lanes, length, e.at(r.rope, e.f32(), begin));
    Value sine = e.loadFirst(e.f32(), lanes, length, e.at(r.rope, e.f32(), upper));
    Value negative = e.subf(e.splat(0.0, lanes), sine);
    e.storeFirst(e.fma(b, negative, e.mulf(a, cosine)), length, e.at(to, e.f32(), begin));
    e.storeFirst(e.fma(a, sine, e.mulf(b, cosine)), length, e.at(to, e.f32(), upper));
  });
}

} // namespace

int64_t emitRopeAppend(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  AttentionShape shape(k);
  int64_t d = shape.head_dim, q = shape.queryWidth(), kv = shape.kvWidth(), norm = k.param("qk_norm");
  Type wType = e.elementType(k.weightType());
  unsigned next = 0;
  Value qkv = frame.binding(next++), positions = frame.binding(next++), sequences = frame.binding(next++);
  Value ropeTable = frame.binding(next++);
  Value qNorm = norm ? frame.binding(next++) : Value(), kNorm = norm ? frame.binding(next++) : Value();
  Value qOut = frame.binding(next++), keys = frame.binding(next++), values = frame.binding(next++);
  Value tokens = frame.constantInt(0), capacity = frame.constantInt(1), eps = frame.constantFloat(2);
  Value rotated = frame.scratch();

  // Rotation of head `head` of a projection that starts at `row` and is `width` wide.
  auto rotation = [&](Value row, int64_t width, Value head, Value normWeight, Value wholeScale, Value rope) {
    Rotation r{rope, Value(), {}};
    if (norm) {
      Value first = norm == 1 ? e.c(0) : e.mul(head, d);
      r.scale = norm == 1 ? inverseRms(e, e.at(row, e.f32(), e.mul(head, d)), d, eps) : wholeScale;
      r.weight = [&e, normWeight, wType, first](Value begin, int64_t length) {
        Value w = e.loadFirst(wType, e.lanes(), length, e.at(normWeight, wType, e.add(first, begin)), 1);
        return e.toFloat(w, e.vec(e.f32(), e.lanes()));
      };
    }
    return r;
  };
  frame.claim(tokens, {}, [&](Value token, ValueRange) {
    Value row = e.at(qkv, e.f32(), e.mul(token, q + 2 * kv));
    Value keyRow = e.at(row, e.f32(), q), valueRow = e.at(row, e.f32(), q + kv);
    Value position = e.loadI32(positions, token), sequence = e.loadI32(sequences, token);
    Value rope = e.at(ropeTable, e.f32(), e.mul(position, d));
    Value qScale = norm == 2 ? inverseRms(e, row, q, eps) : Value();
    Value kScale = norm == 2 ? inverseRms(e, keyRow, kv, eps) : Value();
    e.loop(e.c(0), e.c(shape.query_heads), 1, [&](Value head) {
      Value offset = e.mul(head, d);
      rotateHead(e, e.at(row, e.f32(), offset), e.at(qOut, e.f32(), e.add(e.mul(token, q), offset)), d,
                 rotation(row, q, head, qNorm, qScale, rope));
    });
    Value block = e.mul(e.div(position, kPositionBlock), kPositionBlock * d);
    Value lane = e.rem(position, kPositionBlock);
    e.loop(e.c(0), e.c(shape.kv_heads), 1, [&](Value head) {
      Value offset = e.mul(head, d);
      rotateHead(e, e.at(keyRow, e.f32(), offset), rotated, d,
                 rotation(keyRow, kv, head, kNorm, kScale, rope));
      Value cache = shape.cacheOffset(e, sequence, head, capacity);
      Value keyLane = e.at(keys, e.f32(), e.add(cache, e.add(block, lane)));
      e.loop(e.c(0), e.c(d), 1, [&](Value i) {
        e.store(e.loadF32(rotated, i), e.at(keyLane, e.f32(), e.mul(i, kPositionBlock)));
      });
      Value valueAt = e.at(values, e.f32(), e.add(cache, e.mul(position, d)));
      e.forVectors(d, e.lanes(), [&](Value begin, int64_t length) {
        Value from = e.at(valueRow, e.f32(), e.add(offset, begin));
        e.storeFirst(e.loadFirst(e.f32(), e.lanes(), length, from), length, e.at(valueAt, e.f32(), begin));
      });
    });
    return Values();
  });
  return (d * 4 + 63) / 64 * 64;
}

namespace {

// One (token, kv head) of attention: `group` query heads against the cache.
class AttentionUnit {
public:
  AttentionUnit(Emitter &e, const AttentionShape &shape, Value scratch)
      : e(e), d(shape.head_dim), group(shape.query_heads / shape.kv_heads), scratch(scratch) {
    paddedDim = (d + e.lanes() - 1) / e.lanes() * e.lanes();
    running = e.at(scratch, e.f32(), group * kPositionBlock);
    accumulators = e.at(running, e.f32(), (2 * group + 15) / 16 * 16);
  }

  // Scratch: probabilities [group][16], running maximum and sum [group][2], accumulators [group][paddedDim].
  int64_t scratchBytes() const {
    return 4 * (group * kPositionBlock + (2 * group + 15) / 16 * 16 + group * paddedDim);
  }

  void run(Value queries, Value keys, Value values, Value position, Value out) {
    reset();
    Value blocks = e.add(e.div(position, kPositionBlock), 1);
    e.loop(e.c(0), blocks, 1, [&](Value block) {
      Value keyBlock = e.at(keys, e.f32(), e.mul(block, kPositionBlock * d));
      Value firstPosition = e.mul(block, kPositionBlock);
      Value last = e.sub(position, firstPosition); // lanes up to and including this one are visible
      for (int64_t head = 0; head < group; head += kHeadsAtOnce) {
        scoreHeads(queries, keyBlock, last, head, std::min(kHeadsAtOnce, group - head));
      }
      Value rows = e.min(e.add(last, 1), kPositionBlock);
      Value valueBlock = e.at(values, e.f32(), e.mul(firstPosition, d));
      e.loop(e.c(0), e.c(group), 1, [&](Value head) { addValues(valueBlock, rows, head); });
    });
    e.loop(e.c(0), e.c(group), 1, [&](Value head) { finish(out, head); });
  }

private:
  // Query heads whose scores are accumulated together share one load of the keys.
  static constexpr int64_t kHeadsAtOnce = 4;

  void reset() {
    e.loop(e.c(0), e.c(group), 1, [&](Value head) {
      Value state = e.at(running, e.f32(), e.mul(head, 2));
      e.store(e.f(-std::numeric_limits<float>::max()), state);
      e.store(e.f(0.0), e.at(state, e.f32(), 1));
      e.forVectors(paddedDim, e.lanes(),
                   [&](Value begin, int64_t) { e.store(e.splat(0.0, e.lanes()), accumulator(head, begin)); });
    });
  }

  Value accumulator(Value head, Value begin) {
    return e.at(accumulators, e.f32(), e.add(e.mul(head, paddedDim), begin));
  }

  void scoreHeads(Value queries, Value keyBlock, Value last, int64_t firstHead, int64_t heads) {
    Type vector = e.vec(e.f32(), kPositionBlock);
    Values scores(heads, e.splat(0.0, kPositionBlock));
    scores = e.loop(e.c(0), e.c(d), e.c(1), scores, [&](Value i, ValueRange carried) {
      Value key = e.load(vector, e.at(keyBlock, e.f32(), e.mul(i, kPositionBlock)));
      Values next;
      for (int64_t h = 0; h < heads; ++h) {
        Value q = e.loadF32(queries, e.add(i, (firstHead + h) * d));
        next.push_back(e.fma(e.splat(q, kPositionBlock), key, carried[h]));
      }
      return next;
    });
    Value visible = visibleLanes(last);
    for (int64_t h = 0; h < heads; ++h) {
      softmaxStep(scores[h], visible, firstHead + h);
    }
  }

  Value visibleLanes(Value last) {
    llvm::SmallVector<int32_t> lanes;
    for (int32_t i = 0; i < kPositionBlock; ++i) {
      lanes.push_back(i);
    }
    auto type = VectorType::get({kPositionBlock}, e.builder.getI32Type());
    Value index = arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(type, ArrayRef(lanes)));
    return e.lessEqual(index, e.splat(e.narrow(e.min(last, kPositionBlock)), kPositionBlock));
  }

  // Folds a block of scores into the running maximum and sum, leaves its probabilities in scratch and scales
  // the accumulator to the new maximum.
  void softmaxStep(Value scores, Value visible, int64_t head) {
    scores = e.mulf(scores, e.splat(1.0 / std::sqrt(static_cast<double>(d)), kPositionBlock));
    scores = e.select(visible, scores, e.splat(-std::numeric_limits<float>::max(), kPositionBlock));
    Value state = e.at(running, e.f32(), 2 * head), sumAt = e.at(state, e.f32(), 1);
    Value previous = e.load(e.f32(), state);
    Value maximum = e.maxf(previous, maxLanes(e, scores));
    Value p = exp(e, e.subf(scores, e.splat(maximum, kPositionBlock)));
    p = e.select(visible, p, e.splat(0.0, kPositionBlock));
    Value shrink = exp(e, e.splat(e.subf(previous, maximum), e.lanes()));
    Value shrinkScalar = LLVM::ExtractElementOp::create(e.builder, e.loc, shrink, e.c32(0));
    e.store(maximum, state);
    e.store(e.fma(e.load(e.f32(), sumAt), shrinkScalar, sumLanes(e, p)), sumAt);
    e.store(p, e.at(scratch, e.f32(), head * kPositionBlock));
    e.forVectors(paddedDim, e.lanes(), [&](Value begin, int64_t) {
      Value address = accumulator(e.c(head), begin);
      e.store(e.mulf(e.load(e.vec(e.f32(), e.lanes()), address), shrink), address);
    });
  }

  void addValues(Value valueBlock, Value rows, Value head) {
    Value probabilities = e.at(scratch, e.f32(), e.mul(head, kPositionBlock));
    int64_t vectors = paddedDim / e.lanes();
    Values acc;
    for (int64_t v = 0; v < vectors; ++v) {
      acc.push_back(e.load(e.vec(e.f32(), e.lanes()), accumulator(head, e.c(v * e.lanes()))));
    }
    acc = e.loop(e.c(0), rows, e.c(1), acc, [&](Value row, ValueRange carried) {
      Value p = e.splat(e.loadF32(probabilities, row), e.lanes());
      Values next;
      for (int64_t v = 0; v < vectors; ++v) {
        int64_t begin = v * e.lanes(), length = std::min(e.lanes(), d - begin);
        Value address = e.at(valueBlock, e.f32(), e.add(e.mul(row, d), begin));
        next.push_back(e.fma(p, e.loadFirst(e.f32(), e.lanes(), length, address), carried[v]));
      }
      return next;
    });
    for (int64_t v = 0; v < vectors; ++v) {
      e.store(acc[v], accumulator(head, e.c(v * e.lanes())));
    }
  }

  void finish(Value out, Value head) {
    Value sum = e.loadF32(running, e.add(e.mul(head, 2), 1));
    Value inverse = e.splat(e.divf(e.f(1.0), sum), e.lanes());
    e.forVectors(d, e.lanes(), [&](Value begin, int64_t length) {
      Value value = e.load(e.vec(e.f32(), e.lanes()), accumulator(head, begin));
      e.storeFirst(e.mulf(value, inverse), length, e.at(out, e.f32(), e.add(e.mul(head, d), begin)));
    });
  }

  Emitter &e;
  int64_t d, group, paddedDim;
  Value scratch, running, accumulators;
};

} // namespace

int64_t emitAttention(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  AttentionShape shape(k);
  int64_t groupWidth = shape.queryWidth() / shape.kv_heads;
  Value queries = frame.binding(0), positions = frame.binding(1), sequences = frame.binding(2);
  Value keys = frame.binding(3), values = frame.binding(4), out = frame.binding(5);
  Value tokens = frame.constantInt(0), capacity = frame.constantInt(1);
  AttentionUnit unit(e, shape, frame.scratch());
  frame.claim(e.mul(tokens, shape.kv_heads), {}, [&](Value index, ValueRange) {
    Value token = e.div(index, shape.kv_heads), head = e.rem(index, shape.kv_heads);
    Value row = e.add(e.mul(token, shape.queryWidth()), e.mul(head, groupWidth));
    Value cache = shape.cacheOffset(e, e.loadI32(sequences, token), head, capacity);
    unit.run(e.at(queries, e.f32(), row), e.at(keys, e.f32(), cache), e.at(values, e.f32(), cache),
             e.loadI32(positions, token), e.at(out, e.f32(), row));
    return Values();
  });
  return (unit.scratchBytes() + 63) / 64 * 64;
}

} // namespace smelt::codegen::cpu
