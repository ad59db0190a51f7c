// rope_append: QK norm, rotary position embedding, and the append of keys and values to the cache.
#include "compiler/Codegen/CPU/AttentionShape.h"
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

// Of fewer tokens each is shared out by itself: most are of sequences of their own.
constexpr int64_t kFewTokens = 64;

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

// Stores a key to its lane of a panel: one word of 32 bits in each line. Rounds `key` in place.
void appendKey(Emitter &e, const AttentionShape &shape, Value key, Value lane) {
  auto line = [&](Value i) { return e.at(lane, e.f32(), e.mul(i, kPositionBlock)); };
  if (!shape.bf16) {
    e.loop(e.c(0), e.c(shape.head_dim), 1, [&](Value i) { e.store(e.loadF32(key, i), line(i)); });
    return;
  }
  e.forVectors(shape.head_dim, e.lanes(), [&](Value begin, int64_t length) {
    Value at = e.at(key, e.f32(), begin);
    e.storeFirst(roundToBf16(e, e.loadFirst(e.f32(), e.lanes(), length, at)), length, at);
  });
  e.loop(e.c(0), e.c(shape.head_dim / 2), 1, [&](Value i) {
    Value pair = e.at(key, e.f32(), e.mul(i, 2));
    Value even = e.load(e.i32(), pair), odd = e.load(e.i32(), e.at(pair, e.f32(), 1));
    even = arith::ShRUIOp::create(e.builder, e.loc, even, e.c32(16));
    e.store(arith::OrIOp::create(e.builder, e.loc, even, odd), line(i));
  });
}

// Copies a row of values, rounded to what the cache holds.
void appendValue(Emitter &e, const AttentionShape &shape, Value from, Value to) {
  e.forVectors(shape.head_dim, e.lanes(), [&](Value begin, int64_t length) {
    Value value = e.loadFirst(e.f32(), e.lanes(), length, e.at(from, e.f32(), begin));
    if (!shape.bf16) {
      e.storeFirst(value, length, e.at(to, e.f32(), begin));
      return;
    }
    auto words = VectorType::get({e.lanes()}, e.builder.getI32Type());
    auto halves = VectorType::get({e.lanes()}, e.builder.getI16Type());
    Value bits = arith::BitcastOp::create(e.builder, e.loc, words, roundToBf16(e, value));
    Value sixteen = arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(words, int32_t(16)));
    bits = arith::ShRUIOp::create(e.builder, e.loc, bits, sixteen);
    bits = arith::TruncIOp::create(e.builder, e.loc, halves, bits);
    e.storeFirst(bits, length, e.at(to, e.builder.getI16Type(), begin), 2);
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
        return e.toFloat(w);
      };
    }
    return r;
  };
  auto append = [&](Value token) {
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
      Type element = shape.cacheElement(e);
      appendKey(e, shape, rotated, e.at(e.at(keys, element, e.add(cache, block)), e.f32(), lane));
      appendValue(e, shape, e.at(valueRow, e.f32(), offset),
                  e.at(values, element, e.add(cache, e.mul(position, d))));
    });
  };
  // Keys of neighbours share lines of the cache: in a prompt one worker takes as many as a panel has.
  Value together = e.select(e.less(tokens, kFewTokens), e.c(1), e.c(kPositionBlock));
  frame.claim(e.div(e.sub(e.add(tokens, together), e.c(1)), together), {}, [&](Value unit, ValueRange) {
    Value first = e.mul(unit, together);
    e.loop(first, e.min(e.add(first, together), tokens), 1, append);
    return Values();
  });
  return (d * 4 + 63) / 64 * 64;
}

} // namespace smelt::codegen::cpu
