// route, moe_plan and combine_residual of many tokens.
#include "compiler/Codegen/CUDA/PrefillKernels.h"
#include "compiler/Codegen/CUDA/PrefillSupport.h"

using namespace mlir;

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t CHUNK_TOKENS = 64; // whose pairs one warp sorts, in order
constexpr int64_t PLAN_THREADS = 1024;
constexpr int64_t COMBINE_THREADS = 128;

// Warps of a block, each with one token's logits in shared memory.
int64_t routeWarps(int64_t experts) {
  int64_t fit = 32768 / (experts * 4);
  return fit >= 8 ? 8 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

// A total order of f32 as i32: larger logits have larger keys, -0 and +0 the same.
Value orderedKey(Emitter &e, Value logit) {
  Value bits = e.bits(e.addf(logit, e.f(0.0)));
  return e.select(e.less(bits, 0), e.xori(bits, e.c(0x7fffffff)), bits);
}
Value logitOf(Emitter &e, Value key) {
  return e.fromBits(e.select(e.less(key, 0), e.xori(key, e.c(0x7fffffff)), key));
}

// Above every index, and the key of an expert that is taken: below every key of a number.
constexpr int32_t NO_INDEX = 0x7fffffff;
constexpr int32_t TAKEN = static_cast<int32_t>(0x80000000u);

// One warp a token. Every lane knows the best of its own logits (those of experts lane, lane + 32, ...); a
// round takes the best of the lanes, and the lane that had it looks for its next one.
void emitRouteBody(Emitter &e, StageFrame &frame, const KernelBuilder &k) {
  int64_t experts = k.param("experts"), top_k = k.param("top_k"), warps = routeWarps(experts);
  bool sigmoid = k.param("router") == 1, renormalize = k.param("renormalize") == 1;
  Value logits = frame.binding(0), indices = frame.binding(1), weights = frame.binding(2);
  ThreadPlace place(e);
  Value token = e.add(e.mul(e.block(0), warps), place.warp);
  Value keys = bytes(e, frame.shared(warps * experts * 4), e.mul(place.warp, experts * 4));
  // Best key of this lane's experts; the first of equals.
  auto best = [&] {
    return e.loop(place.lane, e.c(experts), e.c(32), {e.c(TAKEN), e.c(NO_INDEX)}, [&](Value i, ValueRange c) {
      Value key = e.loadI32(keys, i);
      Value better = e.less(c[0], key);
      return Values{e.select(better, key, c[0]), e.select(better, i, c[1])};
    });
  };
  // Whole warps leave together.
  e.when(e.less(token, frame.constantInt(0)), [&] {
    Value row = e.at(logits, e.f32(), wideMul(e, token, experts));
    e.loop(place.lane, e.c(experts), 32,
           [&](Value i) { e.store(orderedKey(e, e.loadF32(row, i)), e.at(keys, e.i32(), i), 4); });
    Values own = best();
    Value maximum = e.warpMax(own[0]), reference = logitOf(e, maximum);
    auto weightOf = [&](Value logit) {
      if (sigmoid) {
        return e.sigmoid(logit);
      }
      return e.exp(e.subf(logit, reference));
    };
    Value sum = e.f(0.0);
    if (!sigmoid && !renormalize) {
      Value mine = e.loop(place.lane, e.c(experts), e.c(32), {e.f(0.0)}, [&](Value i, ValueRange c) {
        return Values{e.addf(c[0], weightOf(logitOf(e, e.loadI32(keys, i))))};
      })[0];
      sum = e.warpSum(mine);
    }
    Value pair = wideMul(e, token, top_k);
    Values state =
        e.loop(e.c(0), e.c(top_k), e.c(1), {own[0], own[1], sum}, [&](Value j, ValueRange carried) {
          Value top = e.warpMax(carried[0]);
          // The least index among equals: the largest of the negated.
          Value candidate = e.select(e.equal(carried[0], top), carried[1], e.c(NO_INDEX));
          Value index = e.sub(e.c(0), e.warpMax(e.sub(e.c(0), candidate)));
          index = e.min(index, experts - 1); // in range even when every logit is NaN
          Value weight = weightOf(logitOf(e, top));
          e.when(e.equal(place.lane, 0), [&] {
            e.store(index, e.at(indices, e.i32(), wideAdd(e, pair, j)), 4);
            e.store(weight, e.at(weights, e.f32(), wideAdd(e, pair, j)), 4);
          });
          Values rest = e.choose(
              e.equal(e.andi(index, 31), place.lane),
              [&] {
                e.store(e.c(TAKEN), e.at(keys, e.i32(), index), 4);
                return best();
              },
              [&] { return Values{carried[0], carried[1]}; });
          rest.push_back(renormalize ? e.addf(carried[2], weight) : carried[2]);
          return rest;
        });
    if (renormalize || !sigmoid) {
      // Lane 0 scales what it wrote itself.
      e.when(e.equal(place.lane, 0), [&] {
        Value inverse = e.rcp(state[2]);
        e.loop(e.c(0), e.c(top_k), 1, [&](Value j) {
          Value address = e.at(weights, e.f32(), wideAdd(e, pair, j));
          e.store(e.mulf(e.load(e.f32(), address, 4), inverse), address, 4);
        });
      });
    }
  });
}

// Sorting is a counting sort in chunks of CHUNK_TOKENS tokens, whose pairs one warp takes in order, 32 at a
// time; nothing depends on the order of blocks. Scratch: counts[chunk][expert].
class PairSorter {
public:
  PairSorter(Emitter &e, StageFrame &frame, const KernelBuilder &k)
      : e(e), place(e), experts(k.param("experts")), top_k(k.param("top_k")), indices(frame.binding(0)),
        counters(frame.shared(k.param("experts") * 4)), tokens(frame.constantInt(0)), chunk(e.block(0)),
        counts(e.at(frame.scratch(), e.i32(), wideMul(e, chunk, experts))) {}

  void forOwnExperts(const std::function<void(Value)> &body) {
    e.loop(place.lane, e.c(experts), 32, [&](Value expert) { body(expert); });
    e.warpBarrier();
  }
  Value counter(Value expert) { return e.at(counters, e.i32(), expert); }
  Value count(Value expert) { return e.at(counts, e.i32(), expert); }

  // Calls place(pair, rank) for every pair of the chunk, where rank counts up from what counter(expert) held.
  void forPairs(const std::function<void(Value pair, Value rank)> &visit) {
    Value first = e.mul(chunk, CHUNK_TOKENS * top_k);
    Value end = e.min(e.add(first, CHUNK_TOKENS * top_k), e.mul(tokens, top_k));
    e.loop(first, end, 32, [&](Value begin) {
      Value pair = e.add(begin, place.lane);
      Value present = e.less(pair, end);
      Value expert = e.loadI32(indices, e.select(present, pair, first));
      expert = e.select(present, expert, e.c(-1));
      Value before = e.c(0), after = e.c(0);
      for (int32_t lane = 0; lane < 32; ++lane) {
        Value same = e.equal(e.shuffleFrom(expert, e.c(lane)), expert);
        Value one = e.select(same, e.c(1), e.c(0));
        before = e.add(before, e.select(e.less(e.c(lane), place.lane), one, e.c(0)));
        after = e.add(after, e.select(e.less(place.lane, lane), one, e.c(0)));
      }
      Value address = counter(e.max(expert, 0));
      Value rank = e.add(e.load(e.i32(), address, 4), before);
      e.warpBarrier(); // all have read before the last of each expert writes
      e.when(e.both(present, e.equal(after, 0)), [&] { e.store(e.add(rank, 1), address, 4); });
      e.warpBarrier();
      e.when(present, [&] { visit(pair, rank); });
    });
  }

  Emitter &e;
  ThreadPlace place;
  int64_t experts, top_k;
  Value indices, counters, tokens, chunk, counts;
};

// Stage 0: how many pairs of each expert a chunk has.
void emitCount(Emitter &e, StageFrame &frame, const KernelBuilder &k) {
  PairSorter sorter(e, frame, k);
  sorter.forOwnExperts([&](Value expert) { e.store(e.c(0), sorter.counter(expert), 4); });
  sorter.forPairs([](Value, Value) {});
  sorter.forOwnExperts(
      [&](Value expert) { e.store(e.load(e.i32(), sorter.counter(expert), 4), sorter.count(expert), 4); });
}

// Stage 1, one block: counts become sums over the chunks before; offsets and the active experts.
void emitOffsets(Emitter &e, StageFrame &frame, const KernelBuilder &k) {
  int64_t experts = k.param("experts"), top_k = k.param("top_k");
  RoutingPlan plan{experts, top_k, frame.binding(1)};
  Value tokens = frame.constantInt(0);
  Value offsetShared = frame.shared(PLAN_THREADS / 8), rankShared = frame.shared(PLAN_THREADS / 8);
  Value chunks = e.div(e.add(tokens, CHUNK_TOKENS - 1), CHUNK_TOKENS);
  ThreadPlace place(e);
  Values state =
      e.loop(e.c(0), e.c(experts), e.c(PLAN_THREADS), {e.c(0), e.c(0)}, [&](Value first, ValueRange carried) {
        Value expert = e.add(first, place.thread);
        Value present = e.less(expert, experts);
        Value chunkEnd = e.select(present, chunks, e.c(0));
        Value rows = e.loop(e.c(0), chunkEnd, e.c(1), {e.c(0)}, [&](Value chunk, ValueRange c) {
          Value address = e.at(frame.scratch(), e.i32(), wideAdd(e, wideMul(e, chunk, experts), expert));
          Value count = e.load(e.i32(), address, 4);
          e.store(c[0], address, 4);
          return Values{e.add(c[0], count)};
        })[0];
        Value used = e.less(e.c(0), rows);
        BlockScan offset = blockScan(e, place, rows, PLAN_THREADS, offsetShared, ScanKind::sum);
        BlockScan rank =
            blockScan(e, place, e.select(used, e.c(1), e.c(0)), PLAN_THREADS, rankShared, ScanKind::sum);
        e.when(present, [&] {
          e.store(e.add(carried[0], e.sub(offset.inclusive, rows)), e.at(plan.offsets(e), e.i32(), expert),
                  4);
        });
        e.when(used, [&] {
          e.store(expert, e.at(plan.active(e), e.i32(), e.sub(e.add(carried[1], rank.inclusive), 1)), 4);
        });
        e.barrier(); // the next stretch writes the shared totals again
        return Values{e.add(carried[0], offset.total), e.add(carried[1], rank.total)};
      });
  e.when(e.equal(place.thread, 0), [&] {
    e.store(state[0], e.at(plan.offsets(e), e.i32(), experts), 4);
    e.store(state[1], plan.activeCount(e), 4);
  });
}

// Stage 2: every pair to its slot.
void emitPlace(Emitter &e, StageFrame &frame, const KernelBuilder &k) {
  PairSorter sorter(e, frame, k);
  RoutingPlan plan{sorter.experts, sorter.top_k, frame.binding(1)};
  Value slotToken = plan.slotToken(e), slotOf = plan.slotOf(e, sorter.tokens);
  sorter.forOwnExperts([&](Value expert) {
    Value before = e.load(e.i32(), sorter.count(expert), 4);
    e.store(e.add(before, e.loadI32(plan.offsets(e), expert)), sorter.counter(expert), 4);
  });
  sorter.forPairs([&](Value pair, Value slot) {
    e.store(e.div(pair, sorter.top_k), e.at(slotToken, e.i32(), slot), 4);
    e.store(slot, e.at(slotOf, e.i32(), pair), 4);
  });
}

// The chosen experts' rows in the order of the choices, so that results do not depend on the plan.
void emitCombine(Emitter &e, StageFrame &frame, const KernelBuilder &k) {
  int64_t hidden = k.param("hidden"), top_k = k.param("top_k"), lanes = rowVector(hidden);
  RoutingPlan plan{k.param("experts"), top_k, frame.binding(1)};
  Value token = e.block(0), pair = wideMul(e, token, top_k), row = wideMul(e, token, hidden);
  Value slots = e.at(plan.slotOf(e, frame.constantInt(0)), e.i32(), pair);
  Value weights = e.at(frame.binding(2), e.f32(), pair);
  Value in = e.at(frame.binding(3), e.f32(), row), out = e.at(frame.binding(4), e.f32(), row);
  Value scale = splat(e, frame.constantFloat(1), lanes);
  Type type = vectorType(e, e.f32(), lanes);
  e.loop(e.mul(e.thread(), lanes), e.c(hidden), COMBINE_THREADS * lanes, [&](Value column) {
    auto add = [&](Value sum, Value choice) {
      Value source = wideAdd(e, wideMul(e, e.readI32(slots, choice), hidden), column);
      Value y = e.loadReadOnly(type, e.at(frame.binding(0), e.f32(), source), 4 * lanes);
      return e.fma(splat(e, e.readF32(weights, choice), lanes), y, sum);
    };
    Value sum = splat(e, e.f(0.0), lanes);
    if (top_k <= 16) { // written out, all loads are under way together
      for (int64_t choice = 0; choice < top_k; ++choice) {
        sum = add(sum, e.c(choice));
      }
    } else {
      sum = e.loop(e.c(0), e.c(top_k), e.c(1), sum,
                   [&](Value choice, ValueRange carried) { return Values{add(carried[0], choice)}; })[0];
    }
    Value before = e.load(type, e.at(in, e.f32(), column), 4 * lanes);
    e.store(e.fma(scale, sum, before), e.at(out, e.f32(), column), 4 * lanes);
  });
}

} // namespace

// logits, indices, weights; constants: T.
void emitPrefillRoute(KernelBuilder &k) {
  int64_t warps = routeWarps(k.param("experts"));
  if (k.param("experts") * 4 > sharedLimit(k.target())) {
    k.fail("more experts than the shared memory of a block holds logits: " +
           std::to_string(k.param("experts")));
    return;
  }
  k.parameters(3, 1);
  k.stage({.x = gridOf(warps), .threads = warps * WARP},
          [&](Emitter &e, StageFrame &frame) { emitRouteBody(e, frame, k); });
}

// indices, plan; constants: T.
void emitPrefillMoePlan(KernelBuilder &k) {
  int64_t experts = k.param("experts");
  k.parameters(2, 1);
  // Chunks are ceil(T / CHUNK_TOKENS).
  k.result.scratch = {.bytes = 4 * experts, .per_token = roundUp(4 * experts, CHUNK_TOKENS) / CHUNK_TOKENS};
  StageShape chunks{.x = gridOf(CHUNK_TOKENS), .threads = WARP};
  k.stage(chunks, [&](Emitter &e, StageFrame &frame) { emitCount(e, frame, k); });
  k.stage({.x = {}, .threads = PLAN_THREADS},
          [&](Emitter &e, StageFrame &frame) { emitOffsets(e, frame, k); });
  k.stage(chunks, [&](Emitter &e, StageFrame &frame) { emitPlace(e, frame, k); });
}

// y, plan, weights, x_in, x_out; constants: T, scale.
void emitPrefillCombineResidual(KernelBuilder &k) {
  k.parameters(5, 2);
  k.stage({.x = gridOf(1), .threads = COMBINE_THREADS},
          [&](Emitter &e, StageFrame &frame) { emitCombine(e, frame, k); });
}

} // namespace smelt::codegen::cuda
