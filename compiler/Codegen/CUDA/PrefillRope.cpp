// rope_append of many tokens: qk-norm, rotation of queries and keys, and the step's keys and values as bf16
// rows of the cache.
#include "compiler/Codegen/CUDA/PrefillKernels.h"
#include "compiler/Codegen/CUDA/PrefillSupport.h"

using namespace mlir;

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t THREADS = 256;

enum QkNorm : int64_t { NONE = 0, PER_HEAD = 1, FULL_WIDTH = 2 };

// One block a token, one warp a head at a time; lane i has the pairs i, i + 32, ... of the head.
class RopeKernel {
public:
  RopeKernel(Emitter &e, StageFrame &frame, const KernelDesc &k)
      : e(e), frame(frame), place(e), query_heads(k.param("query_heads")), kv_heads(k.param("kv_heads")),
        head_dim(k.param("head_dim")), half(head_dim / 2), norm(static_cast<QkNorm>(k.param("qk_norm"))) {
    Value positions = frame.binding(1), sequences = frame.binding(2), table = frame.binding(3);
    unsigned next = 4;
    if (norm != NONE) {
      queryNorm = frame.binding(next++);
      keyNorm = frame.binding(next++);
    }
    queries = frame.binding(next++);
    keys = frame.binding(next++);
    values = frame.binding(next++);
    token = e.block(0);
    capacity = frame.constantInt(1);
    epsilon = frame.constantFloat(2);
    row = e.at(frame.binding(0), e.f32(), wideMul(e, token, (query_heads + 2 * kv_heads) * head_dim));
    position = e.loadI32(positions, token);
    sequence = e.loadI32(sequences, token);
    angles = e.at(table, e.f32(), wideMul(e, position, head_dim));
  }

  void emit();

private:
  void forHeads(int64_t count, const std::function<void(Value head)> &body);
  Value fullWidthFactor(int64_t firstHead, int64_t heads);
  Value factor(Value squares, int64_t width);
  void rotate(Value source, Value normWeight, Value widthFactor,
              const std::function<void(Value column, Value value)> &store);
  void forPairs(const std::function<void(Value pair)> &body);
  Value cacheRow(Value cache, Value head);

  Emitter &e;
  StageFrame &frame;
  ThreadPlace place;
  int64_t query_heads, kv_heads, head_dim, half;
  QkNorm norm;
  Value queryNorm, keyNorm, queries, keys, values, token, capacity, epsilon, row, position, sequence, angles;
};

void RopeKernel::forHeads(int64_t count, const std::function<void(Value head)> &body) {
  e.loop(place.warp, e.c(count), THREADS / WARP, body);
}

void RopeKernel::forPairs(const std::function<void(Value pair)> &body) {
  for (int64_t first = 0; first < half; first += 32) {
    Value pair = e.add(place.lane, first);
    if (first + 32 <= half) {
      body(pair);
    } else {
      e.when(e.less(pair, half), [&] { body(pair); });
    }
  }
}

Value RopeKernel::factor(Value squares, int64_t width) {
  Value mean = e.mulf(squares, e.f(1.0 / static_cast<double>(width)));
  return e.rsqrt(e.addf(mean, epsilon));
}

// RMSNorm over several heads together: every thread sums its share, then the block.
Value RopeKernel::fullWidthFactor(int64_t firstHead, int64_t heads) {
  int64_t width = heads * head_dim;
  Value source = e.at(row, e.f32(), firstHead * head_dim);
  Value squares = e.loop(place.thread, e.c(width), e.c(THREADS), {e.f(0.0)}, [&](Value i, ValueRange c) {
    Value v = e.loadF32(source, i);
    return Values{e.fma(v, v, c[0])};
  })[0];
  Value sum = blockSum(e, place, squares, THREADS, frame.shared(THREADS / WARP * 4));
  return factor(sum, width);
}

// One head from `source`: normalised (normWeight: of this head's columns), rotated, handed to `store`.
void RopeKernel::rotate(Value source, Value normWeight, Value widthFactor,
                        const std::function<void(Value column, Value value)> &store) {
  Value scale = widthFactor;
  if (norm == PER_HEAD) {
    Value squares = e.f(0.0);
    for (int64_t first = 0; first < head_dim; first += 32) {
      Value column = e.add(place.lane, first);
      bool whole = first + 32 <= head_dim;
      Value inside = whole ? Value() : e.less(column, head_dim);
      Value v = e.loadF32(source, inside ? e.select(inside, column, e.c(0)) : column);
      if (inside) {
        v = e.select(inside, v, e.f(0.0));
      }
      squares = e.fma(v, v, squares);
    }
    scale = factor(e.warpSum(squares), head_dim);
  }
  forPairs([&](Value pair) {
    Value second = e.add(pair, half);
    auto component = [&](Value column) {
      Value v = e.loadF32(source, column);
      if (norm == NONE) {
        return v;
      }
      return e.mulf(e.mulf(v, scale), bf16ToF32(e, e.load(e.bf16(), e.at(normWeight, e.bf16(), column), 2)));
    };
    Value a = component(pair), b = component(second);
    Value cosine = e.loadF32(angles, pair), sine = e.loadF32(angles, second);
    store(pair, e.subf(e.mulf(a, cosine), e.mulf(b, sine)));
    store(second, e.addf(e.mulf(b, cosine), e.mulf(a, sine)));
  });
}

Value RopeKernel::cacheRow(Value cache, Value head) {
  Value line = wideAdd(e, wideMul(e, e.add(e.mul(sequence, kv_heads), head), capacity), position);
  return e.at(cache, e.bf16(), wideMul(e, line, roundUp(head_dim, 8)));
}

void RopeKernel::emit() {
  Value queryFactor, keyFactor;
  if (norm == FULL_WIDTH) {
    queryFactor = fullWidthFactor(0, query_heads);
    keyFactor = fullWidthFactor(query_heads, kv_heads);
  }
  auto headOf = [&](int64_t first, Value head) {
    return e.at(row, e.f32(), e.mul(e.add(head, first), head_dim));
  };
  auto normOf = [&](Value weight, Value head) {
    return norm == FULL_WIDTH ? e.at(weight, e.bf16(), e.mul(head, head_dim)) : weight;
  };
  forHeads(query_heads, [&](Value head) {
    Value target =
        e.at(queries, e.f32(), wideAdd(e, wideMul(e, token, query_heads * head_dim), e.mul(head, head_dim)));
    rotate(headOf(0, head), normOf(queryNorm, head), queryFactor,
           [&](Value column, Value value) { e.store(value, e.at(target, e.f32(), column), 4); });
  });
  forHeads(kv_heads, [&](Value head) {
    Value target = cacheRow(keys, head);
    rotate(headOf(query_heads, head), normOf(keyNorm, head), keyFactor, [&](Value column, Value value) {
      e.store(f32ToBf16(e, value), e.at(target, e.bf16(), column), 2);
    });
    Value source = headOf(query_heads + kv_heads, head), to = cacheRow(values, head);
    forPairs([&](Value pair) {
      Value both = e.load(vectorType(e, e.f32(), 2), e.at(source, e.f32(), e.mul(pair, 2)), 8);
      e.store(e.packBf16(lane(e, both, 0), lane(e, both, 1)), e.at(to, e.bf16(), e.mul(pair, 2)), 4);
    });
  });
}

} // namespace

// qkv, positions, sequence_ids, rope table, [q norm, k norm], q_out, k slot, v slot; constants: T, C, eps.
void emitPrefillRopeAppend(KernelBuilder &k) {
  k.parameters(k.has("qk_norm") ? 9 : 7, 3);
  k.stage({.x = gridOf(1), .threads = THREADS},
          [&](Emitter &e, StageFrame &frame) { RopeKernel(e, frame, k.desc()).emit(); });
}

} // namespace smelt::codegen::cuda
