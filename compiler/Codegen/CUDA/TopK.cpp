#include "compiler/Codegen/CUDA/TopK.h"

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t UNROLLED = 32; // experts of a lane up to which its scans are straight code

// body(expert, carried) for the experts of this lane in rising order.
Values overExperts(Emitter &e, int64_t experts, ValueRange init,
                   const std::function<Values(Value expert, ValueRange carried)> &body) {
  int64_t perLane = (experts + WARP - 1) / WARP;
  if (perLane > UNROLLED) {
    return e.loop(e.lane(), e.c(experts), e.c(WARP), init, body);
  }
  Values carried(init);
  for (int64_t i = 0; i < perLane; ++i) {
    Value expert = e.add(e.lane(), i * WARP);
    if ((i + 1) * WARP <= experts) {
      carried = body(expert, carried);
    } else {
      Values before(carried);
      carried =
          e.choose(e.less(expert, experts), [&] { return body(expert, before); }, [&] { return before; });
    }
  }
  return carried;
}

// The greater key, the first of equals.
Values better(Emitter &e, Value key, Value expert, ValueRange best) {
  Value wins = e.lessUnsigned(best[0], key);
  return {e.select(wins, key, best[0]), e.select(wins, expert, best[1])};
}

} // namespace

Value keyOf(Emitter &e, Value logit) {
  Value bits = e.bits(e.addf(logit, e.f(0)));
  return e.xori(bits, e.select(e.less(bits, 0), e.c(-1), e.c(INT32_MIN)));
}
Value logitOf(Emitter &e, Value key) {
  return e.fromBits(e.xori(key, e.select(e.less(key, 0), e.c(INT32_MIN), e.c(-1))));
}

Routing::Routing(const KernelBuilder &kernel)
    : experts(kernel.param("experts")), topK(kernel.param("top_k")), sigmoid(kernel.has("router")),
      renormalize(kernel.has("renormalize")) {}

void emitTopK(Emitter &e, const Routing &routing, Value logits, Value indices, Value weights, Value keys) {
  Values nothing = {e.c(0), e.lane()};
  // A lane only ever reads the keys it wrote.
  Values best = overExperts(e, routing.experts, nothing, [&](Value expert, ValueRange best) {
    Value key = keyOf(e, e.loadF32(logits, expert));
    e.store(key, e.at(keys, e.i32(), expert), 4);
    return better(e, key, expert, best);
  });
  Value most = logitOf(e, e.warpMaxUnsigned(best[0]));
  auto numerator = [&](Value logit) {
    return routing.sigmoid ? e.sigmoid(logit) : e.exp(e.subf(logit, most));
  };

  Value denominator = e.f(1);
  if (!routing.sigmoid && !routing.renormalize) {
    Value sum = overExperts(e, routing.experts, {e.f(0)}, [&](Value expert, ValueRange sum) {
      return Values{e.addf(sum[0], numerator(logitOf(e, e.loadI32(keys, expert))))};
    })[0];
    denominator = e.warpSum(sum);
  }

  // Choice j rests in lane j % 32, in registers of its own per 32 choices.
  int64_t sets = (routing.topK + WARP - 1) / WARP;
  Values carried = {best[0], best[1], e.f(0)};
  for (int64_t s = 0; s < sets; ++s) {
    carried.append({e.c(0), e.f(0)});
  }
  Values chosen = e.loop(e.c(0), e.c(routing.topK), e.c(1), carried, [&](Value j, ValueRange in) {
    Value key = e.warpMaxUnsigned(in[0]);
    Value winner = e.warpMinUnsigned(e.select(e.equal(in[0], key), in[1], e.c(-1)));
    Value value = numerator(logitOf(e, key));
    // All lanes look again: waiting for the one that must takes as long, and they stay together.
    e.when(e.equal(in[1], winner), [&] { e.store(e.c(0), e.at(keys, e.i32(), winner), 4); });
    Values out = overExperts(e, routing.experts, nothing, [&](Value expert, ValueRange best) {
      return better(e, e.loadI32(keys, expert), expert, best);
    });
    out.push_back(e.addf(in[2], value));
    for (int64_t s = 0; s < sets; ++s) {
      Value here = e.equal(e.sub(j, s * WARP), e.lane());
      out.push_back(e.select(here, winner, in[3 + 2 * s]));
      out.push_back(e.select(here, value, in[4 + 2 * s]));
    }
    return out;
  });
  Value scale = e.rcp(routing.renormalize ? chosen[2] : denominator);
  for (int64_t s = 0; s < sets; ++s) {
    Value j = e.add(e.lane(), s * WARP);
    e.when(e.less(j, routing.topK), [&] {
      e.store(chosen[3 + 2 * s], e.at(indices, e.i32(), j), 4);
      e.storeF32(e.mulf(chosen[4 + 2 * s], scale), weights, j);
    });
  }
}

} // namespace smelt::codegen::cuda
