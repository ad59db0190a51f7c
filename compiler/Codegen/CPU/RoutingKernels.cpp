// route (top-k of the router's logits) and moe_plan (counting sort of the chosen (token, expert) pairs).
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"

#include <limits>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Value vectorConstant(Emitter &e, ArrayRef<int32_t> values) {
  auto type = VectorType::get({static_cast<int64_t>(values.size())}, e.builder.getI32Type());
  return arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(type, values));
}

Value addInt(Emitter &e, Value a, Value b) { return arith::AddIOp::create(e.builder, e.loc, a, b); }

// Index and value of the largest of `padded` scores; the lower index wins a tie. Never out of [0, padded).
std::pair<Value, Value> argmax(Emitter &e, Value scores, int64_t padded) {
  int64_t lanes = e.lanes();
  llvm::SmallVector<int32_t> lane(lanes);
  for (int64_t i = 0; i < lanes; ++i) {
    lane[i] = i;
  }
  Value first = vectorConstant(e, lane);
  Value start = e.load(e.vec(e.f32(), lanes), scores);
  // Per lane the first of its largest: a later value replaces an earlier one only when strictly greater.
  Values best =
      e.loop(e.c(lanes), e.c(padded), e.c(lanes), {start, first}, [&](Value begin, ValueRange carried) {
        Value value = e.load(e.vec(e.f32(), lanes), e.at(scores, e.f32(), begin));
        Value index = addInt(e, first, e.splat(e.narrow(begin), lanes));
        Value better = e.greater(value, carried[0]);
        return Values{e.select(better, value, carried[0]), e.select(better, index, carried[1])};
      });
  Value top = maxLanes(e, best[0]);
  Value tied = e.equalf(best[0], e.splat(top, lanes));
  // Lanes that do not hold the maximum stand back behind every index; so does a NaN, leaving lane 0's.
  Value none = vectorConstant(e, llvm::SmallVector<int32_t>(lanes, static_cast<int32_t>(padded - 1)));
  Value candidates = e.select(tied, best[1], none);
  for (int64_t width = lanes; width > 1; width /= 2) {
    llvm::SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width / 2; ++i) {
      low.push_back(i);
      high.push_back(width / 2 + i);
    }
    candidates = arith::MinSIOp::create(e.builder, e.loc, e.shuffle(candidates, candidates, low),
                                        e.shuffle(candidates, candidates, high));
  }
  Value index = LLVM::ExtractElementOp::create(e.builder, e.loc, candidates, e.c32(0));
  return {index, top};
}

} // namespace

int64_t emitRoute(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t experts = k.param("experts"), top_k = k.param("top_k"), lanes = e.lanes();
  int64_t padded = (experts + lanes - 1) / lanes * lanes;
  bool sigmoidRouter = k.param("router") == 1, renormalize = k.param("renormalize");
  Value logits = frame.binding(0), indices = frame.binding(1), weights = frame.binding(2);
  Value scores = frame.scratch();
  Value largestIndex = e.c32(static_cast<int32_t>(experts - 1));

  // Scalars go through one lane of the vector routines so that both paths share their bits.
  auto scalar = [&](Value vector) {
    return LLVM::ExtractElementOp::create(e.builder, e.loc, vector, e.c32(0)).getResult();
  };
  frame.claim(frame.constantInt(0), {}, [&](Value token, ValueRange) {
    Value row = e.at(logits, e.f32(), e.mul(token, experts));
    Value pair = e.mul(token, top_k);
    e.forVectors(experts, lanes, [&](Value begin, int64_t length) {
      Value v = e.loadFirst(e.f32(), lanes, length, e.at(row, e.f32(), begin));
      e.store(v, e.at(scores, e.f32(), begin));
    });
    for (int64_t pad = experts; pad < padded; ++pad) {
      e.store(e.f(kMinusInfinity), e.at(scores, e.f32(), pad));
    }
    Value maximum;
    // The sum over all experts comes before selection overwrites the scores.
    Value total = e.f(0.0);
    if (!sigmoidRouter && !renormalize) {
      Value top = e.loop(e.c(0), e.c(padded), e.c(lanes), {e.splat(kMinusInfinity, lanes)},
                         [&](Value begin, ValueRange carried) {
                           Value v = e.load(e.vec(e.f32(), lanes), e.at(scores, e.f32(), begin));
                           return Values{e.maxf(carried[0], v)};
                         })[0];
      maximum = maxLanes(e, top);
      Value sums = e.splat(0.0, lanes);
      int64_t full = experts / lanes * lanes;
      auto addExp = [&](Value begin, int64_t length, Value acc) {
        Value v = e.loadFirst(e.f32(), lanes, length, e.at(row, e.f32(), begin));
        Value p = exp(e, e.subf(v, e.splat(maximum, lanes)));
        if (length < lanes) {
          llvm::SmallVector<bool> valid(lanes, false);
          std::fill(valid.begin(), valid.begin() + length, true);
          auto type = VectorType::get({lanes}, e.builder.getI1Type());
          Value mask = arith::ConstantOp::create(e.builder, e.loc,
                                                 DenseElementsAttr::get(type, ArrayRef<bool>(valid)));
          p = e.select(mask, p, e.splat(0.0, lanes));
        }
        return e.addf(acc, p);
      };
      if (full) {
        sums = e.loop(e.c(0), e.c(full), e.c(lanes), {sums}, [&](Value begin, ValueRange carried) {
          return Values{addExp(begin, lanes, carried[0])};
        })[0];
      }
      if (full != experts) {
        sums = addExp(e.c(full), experts - full, sums);
      }
      total = sumLanes(e, sums);
    }
    // Selection: k times the largest remaining. The first one is the softmax's maximum.
    Values state = e.loop(e.c(0), e.c(top_k), e.c(1), {maximum ? maximum : e.f(0.0), total},
                          [&](Value j, ValueRange carried) {
                            auto [found, value] = argmax(e, scores, padded);
                            Value index = arith::MinSIOp::create(e.builder, e.loc, found, largestIndex);
                            e.store(e.f(kMinusInfinity), e.at(scores, e.f32(), e.widen(index)));
                            e.store(index, e.at(indices, e.i32(), e.add(pair, j)));
                            Value reference = carried[0], sum = carried[1], weight;
                            if (sigmoidRouter) {
                              weight = scalar(sigmoid(e, e.splat(value, lanes)));
                            } else {
                              if (renormalize) {
                                reference = e.select(e.equal(j, e.c(0)), value, reference);
                              }
                              weight = scalar(exp(e, e.splat(e.subf(value, reference), lanes)));
                            }
                            e.store(weight, e.at(weights, e.f32(), e.add(pair, j)));
                            return Values{reference, renormalize ? e.addf(sum, weight) : sum};
                          });
    if (renormalize || !sigmoidRouter) {
      Value inverse = e.divf(e.f(1.0), state[1]);
      e.loop(e.c(0), e.c(top_k), 1, [&](Value j) {
        Value address = e.at(weights, e.f32(), e.add(pair, j));
        e.store(e.mulf(e.load(e.f32(), address), inverse), address);
      });
    }
    return Values();
  });
  return (padded * 4 + 63) / 64 * 64;
}

int64_t emitMoePlan(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  int64_t experts = k.param("experts"), top_k = k.param("top_k");
  Value indices = frame.binding(0);
  RoutingPlan plan{experts, top_k, frame.binding(1)};
  Value tokens = frame.constantInt(0);
  Value pairs = e.mul(tokens, top_k);
  Value cursor = frame.scratch();
  Value offsets = plan.offsets(e), slotToken = plan.slotToken(e), slotOf = plan.slotOf(e, tokens);
  auto storeAt = [&](Value base, Value index, Value value) {
    e.store(e.narrow(value), e.at(base, e.i32(), index));
  };
  // One worker sorts: a few microseconds, and a parallel sort would need its own barriers.
  frame.claim(e.c(1), {}, [&](Value, ValueRange) {
    e.loop(e.c(0), e.c(experts), 1, [&](Value expert) { storeAt(cursor, expert, e.c(0)); });
    e.loop(e.c(0), pairs, 1, [&](Value pair) {
      Value expert = e.loadI32(indices, pair);
      storeAt(cursor, expert, e.add(e.loadI32(cursor, expert), 1));
    });
    Values ends =
        e.loop(e.c(0), e.c(experts), e.c(1), {e.c(0), e.c(0)}, [&](Value expert, ValueRange carried) {
          Value begin = carried[0], active = carried[1];
          Value rows = e.loadI32(cursor, expert);
          storeAt(offsets, expert, begin);
          storeAt(cursor, expert, begin);
          Value used = e.less(e.c(0), rows);
          e.when(used, [&] { storeAt(plan.active(e), active, expert); });
          return Values{e.add(begin, rows), e.select(used, e.add(active, 1), active)};
        });
    storeAt(offsets, e.c(experts), ends[0]);
    storeAt(plan.activeCount(e), e.c(0), ends[1]);
    e.loop(e.c(0), pairs, 1, [&](Value pair) {
      Value expert = e.loadI32(indices, pair);
      Value slot = e.loadI32(cursor, expert);
      storeAt(cursor, expert, e.add(slot, 1));
      storeAt(slotToken, slot, e.div(pair, top_k));
      storeAt(slotOf, pair, slot);
    });
    return Values();
  });
  return (experts * 4 + 63) / 64 * 64;
}

} // namespace smelt::codegen::cpu
