#include "compiler/Codegen/CPU/AttentionRows.h"

#include "compiler/Codegen/CPU/VectorMath.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

// Positions of one step of softmax: sums are kept in as many vectors as these take, to be added at the end.
constexpr int64_t kSoftmaxStep = 64;
constexpr double kLog2E = 1.44269504088896341;

int64_t wholeLines(int64_t floats) { return (floats + 15) / 16 * 16; }

} // namespace

AttentionRows::AttentionRows(Emitter &e, const AttentionShape &shape, int64_t mostTokens, Value scratch)
    : e(e), shape(shape), group(shape.group()), mostRows(mostTokens * group), products(e, shape, mostRows) {
  auto take = [&](int64_t floats) {
    Value begin = e.at(scratch, e.f32(), floatsTaken);
    floatsTaken += wholeLines(floats);
    return begin;
  };
  queries = take(mostRows * products.queryStride());
  scores = take(mostRows * products.scoreStride());
  for (Value *column : {&maxima, &sums, &chunkMaxima, &chunkSums, &keeps, &adds}) {
    *column = take(mostRows);
  }
  accumulators = take(mostRows * products.dimVectors() * e.lanes());
}

Value AttentionRows::accumulator(Value row, Value vector) {
  return e.at(accumulators, e.f32(), e.mul(e.add(e.mul(row, products.dimVectors()), vector), e.lanes()));
}

Value AttentionRows::visibleTo(Value row, Value visible) {
  return e.min(e.add(visible, e.div(row, group)), kChunk);
}

void AttentionRows::begin(Value from, Value count) {
  tokens = count;
  rows = e.mul(count, group);
  Value scale = e.splat(kLog2E / std::sqrt(static_cast<double>(shape.head_dim)), e.lanes());
  // The query heads of a token lie together in both places.
  int64_t width = group * shape.head_dim;
  e.loop(e.c(0), tokens, 1, [&](Value token) {
    Value source = e.at(from, e.f32(), e.mul(token, shape.queryWidth()));
    Value target = e.at(queries, e.f32(), e.mul(token, width));
    e.forVectors(width, e.lanes(), [&](Value begin, int64_t length) {
      Value q = e.loadFirst(e.f32(), e.lanes(), length, e.at(source, e.f32(), begin));
      e.storeFirst(e.mulf(q, scale), length, e.at(target, e.f32(), begin));
    });
  });
  e.loop(e.c(0), rows, e.lanes(), [&](Value row) {
    e.store(e.splat(-std::numeric_limits<float>::max(), e.lanes()), e.at(maxima, e.f32(), row));
    e.store(e.splat(0.0, e.lanes()), e.at(sums, e.f32(), row));
  });
  e.loop(e.c(0), e.mul(rows, products.dimVectors()), 1,
         [&](Value vector) { e.store(e.splat(0.0, e.lanes()), accumulator(e.c(0), vector)); });
}

void AttentionRows::foldChunk(Value keys, Value values, Value visible, Value panels) {
  auto seen = [&](Value row) { return visibleTo(row, visible); };
  products.scores(queries, rows, keys, panels, scores);
  // Row after row in each of these, so that the latency of one row's reductions hides behind the next rows.
  e.loop(e.c(0), rows, 1, [&](Value row) { findMaximum(row, seen(row)); });
  e.loop(e.c(0), rows, 1, [&](Value row) { exponentiate(row, seen(row)); });
  foldStates();
  products.weightedValues(scores, rows, values, seen, [&](Value row, Value vector, Value sum) {
    auto factor = [&](Value column) { return e.splat(e.loadF32(column, row), e.lanes()); };
    Value address = accumulator(row, vector);
    Value before = e.load(e.vec(e.f32(), e.lanes()), address);
    e.store(e.fma(before, factor(keeps), e.mulf(sum, factor(adds))), address);
  });
}

// The vectors of one step of a row of scores.
Values AttentionRows::stepAddresses(Value row, Value step) {
  Value begin = e.add(e.mul(row, products.scoreStride()), e.mul(step, kSoftmaxStep));
  Values addresses;
  for (int64_t v = 0; v < kSoftmaxStep / e.lanes(); ++v) {
    addresses.push_back(e.at(scores, e.f32(), e.add(begin, v * e.lanes())));
  }
  return addresses;
}

// Combines vectors pairwise into one.
Value AttentionRows::combineAll(Values parts, const std::function<Value(Value, Value)> &combine) {
  while (parts.size() > 1) {
    Values halves;
    for (size_t i = 0; i < parts.size(); i += 2) {
      halves.push_back(combine(parts[i], parts[i + 1]));
    }
    parts = halves;
  }
  return parts.front();
}

// m_c of a row. Scores of the last step that the row may not see become the lowest number.
void AttentionRows::findMaximum(Value row, Value visible) {
  Type vector = e.vec(e.f32(), e.lanes());
  Value lowest = e.splat(-std::numeric_limits<float>::max(), e.lanes());
  Value lastStep = e.div(e.sub(visible, 1), kSoftmaxStep);
  Values parts;
  for (auto [v, address] : llvm::enumerate(stepAddresses(row, lastStep))) {
    Value left = e.sub(e.sub(visible, e.mul(lastStep, kSoftmaxStep)), v * e.lanes());
    Value score = e.select(e.lanesBelow(left, e.lanes()), e.load(vector, address), lowest);
    e.store(score, address);
    parts.push_back(score);
  }
  parts = e.loop(e.c(0), lastStep, e.c(1), parts, [&](Value step, ValueRange carried) {
    Values next(carried);
    for (auto [v, address] : llvm::enumerate(stepAddresses(row, step))) {
      next[v] = e.maxf(e.load(vector, address), next[v]);
    }
    return next;
  });
  Value highest = combineAll(parts, [&](Value a, Value b) { return e.maxf(a, b); });
  e.store(maxLanes(e, highest), e.at(chunkMaxima, e.f32(), row));
}

// Turns a row's scores into 2^(s - m_c), zeros behind the visible ones up to the end of a step; l_c is their
// sum.
void AttentionRows::exponentiate(Value row, Value visible) {
  int64_t lanes = e.lanes();
  Value steps = e.div(e.add(visible, kSoftmaxStep - 1), kSoftmaxStep);
  Value highest = e.splat(e.loadF32(chunkMaxima, row), lanes);
  Values parts(kSoftmaxStep / lanes, e.splat(0.0, lanes));
  parts = e.loop(e.c(0), steps, e.c(1), parts, [&](Value step, ValueRange carried) {
    Values next(carried);
    for (auto [v, address] : llvm::enumerate(stepAddresses(row, step))) {
      Value p = exp2OfNonPositive(e, e.subf(e.load(e.vec(e.f32(), lanes), address), highest));
      e.store(p, address);
      next[v] = e.addf(next[v], p);
    }
    return next;
  });
  Value sum = combineAll(parts, [&](Value a, Value b) { return e.addf(a, b); });
  e.store(sumLanes(e, sum), e.at(chunkSums, e.f32(), row));
}

// Folds m_c and l_c into M and L.
AttentionRows::Folded AttentionRows::fold(Value before, Value highest, Value sum, Value chunkSum) {
  Value maximum = e.maxf(before, highest);
  Value keep = exp2OfNonPositive(e, e.subf(before, maximum));
  Value add = exp2OfNonPositive(e, e.subf(highest, maximum));
  return {maximum, e.fma(sum, keep, e.mulf(chunkSum, add)), keep, add};
}

// M and L of all rows, and the factors their accumulators are folded with.
void AttentionRows::foldStates() {
  e.loop(e.c(0), rows, e.lanes(), [&](Value row) {
    auto load = [&](Value column) { return e.load(e.vec(e.f32(), e.lanes()), e.at(column, e.f32(), row)); };
    Folded folded = fold(load(maxima), load(chunkMaxima), load(sums), load(chunkSums));
    e.store(folded.maximum, e.at(maxima, e.f32(), row));
    e.store(folded.sum, e.at(sums, e.f32(), row));
    e.store(folded.keep, e.at(keeps, e.f32(), row));
    e.store(folded.add, e.at(adds, e.f32(), row));
  });
}

void AttentionRows::storePartials(Value partials, Value tokenStride) {
  e.loop(e.c(0), rows, 1, [&](Value row) {
    Value head = e.mul(e.rem(row, group), shape.partialFloats());
    Value to = e.at(partials, e.f32(), e.add(e.mul(e.div(row, group), tokenStride), head));
    for (int64_t v = 0; v < products.dimVectors(); ++v) {
      Value a = e.load(e.vec(e.f32(), e.lanes()), accumulator(row, e.c(v)));
      e.store(a, e.at(to, e.f32(), v * e.lanes()));
    }
    Value state = e.at(to, e.f32(), shape.partialMaximum());
    e.store(e.loadF32(maxima, row), state);
    e.store(e.loadF32(sums, row), e.at(state, e.f32(), 1));
  });
}

void AttentionRows::foldPartials(Value partials, Value stride, Value chunks, Value out) {
  int64_t lanes = e.lanes(), vectors = products.dimVectors();
  // M and L in every lane, then A.
  Values state(2 + vectors, e.splat(0.0, lanes));
  state[0] = e.splat(-std::numeric_limits<float>::max(), lanes);
  state = e.loop(e.c(0), chunks, e.c(1), state, [&](Value chunk, ValueRange carried) {
    Value from = e.at(partials, e.f32(), e.mul(chunk, stride));
    Value highest = e.splat(e.loadF32(from, e.c(shape.partialMaximum())), lanes);
    Value sum = e.splat(e.loadF32(from, e.c(shape.partialMaximum() + 1)), lanes);
    Folded folded = fold(carried[0], highest, carried[1], sum);
    Values next = {folded.maximum, folded.sum};
    for (int64_t v = 0; v < vectors; ++v) {
      Value a = e.load(e.vec(e.f32(), lanes), e.at(from, e.f32(), v * lanes));
      next.push_back(e.fma(carried[2 + v], folded.keep, e.mulf(a, folded.add)));
    }
    return next;
  });
  storeResult(out, state[1], [&](int64_t v) { return state[2 + v]; });
}

// A / L of a row.
void AttentionRows::storeResult(Value out, Value sum,
                                const std::function<Value(int64_t vector)> &accumulated) {
  Value inverse = e.divf(e.splat(1.0, e.lanes()), sum);
  for (int64_t v = 0; v < products.dimVectors(); ++v) {
    e.storeFirst(e.mulf(accumulated(v), inverse), products.vectorLength(),
                 e.at(out, e.f32(), products.vectorBegin(e.c(v))));
  }
}

void AttentionRows::finish(Value out) {
  e.loop(e.c(0), rows, 1, [&](Value row) {
    Value token = e.div(row, group), head = e.rem(row, group);
    Value to = e.at(out, e.f32(), e.add(e.mul(token, shape.queryWidth()), e.mul(head, shape.head_dim)));
    storeResult(to, e.splat(e.loadF32(sums, row), e.lanes()),
                [&](int64_t v) { return e.load(e.vec(e.f32(), e.lanes()), accumulator(row, e.c(v))); });
  });
}

} // namespace smelt::codegen::cpu
