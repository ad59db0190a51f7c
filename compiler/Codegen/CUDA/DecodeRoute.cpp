// RMSNorm, router and choice of experts in one kernel of short steps; the first projections of shared experts
// are further blocks of it.
#include "compiler/Codegen/CUDA/DecodeLinear.h"
#include "compiler/Codegen/CUDA/TopK.h"
#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <algorithm>

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t KEY_BYTES = 32 << 10; // shared memory for the choice, unless one token takes more

struct RouteShape {
  explicit RouteShape(const KernelBuilder &kernel)
      : in(kernel.param("in")), shared(kernel.has("shared") ? kernel.param("shared") : 0), routing(kernel),
        gemv{.in = in, .rows = 1}, blocks((routing.experts + gemv.warps - 1) / gemv.warps) {}
  unsigned xNorm() const { return shared ? 5 : 3; } // then indices, weights, h_shared

  int64_t in, shared;
  Routing routing;
  GemvShape gemv;
  int64_t blocks; // of the router
};

// Block e.block(0) of the router.
void emitRouter(Emitter &e, StageFrame &frame, const RouteShape &s, const GemvInput &input) {
  const Routing &routing = s.routing;
  Value logits = frame.scratch(), tokens = input.tokens;
  Value flag = frame.shared(4);
  int64_t mark = frame.mark();
  Gemv gemv(e, frame, s.gemv, input);
  Value expert = e.add(e.mul(e.block(0), s.gemv.warps), e.warp());
  Value row = e.row(frame.binding(2), e.bf16(), e.min(expert, routing.experts - 1), rowStride(s.in));
  Value logit = gemv.multiply(row)[0];
  e.when(e.both(gemv.laneActive(), e.less(expert, routing.experts)),
         [&] { e.storeF32(logit, e.row(logits, e.f32(), gemv.laneToken(), routing.experts), expert); });
  storeNormalised(e, gemv, input, s.in, s.gemv.threads(), frame.binding(s.xNorm()), e.c(s.blocks));
  Value last = e.lastToArrive(frame.ticket(0), e.c(s.blocks), flag);
  // The activations are done with: their memory serves the choice.
  frame.release(mark);
  int64_t chooseWarps =
      std::clamp<int64_t>(KEY_BYTES / routing.sharedBytes(), 1, std::min(s.gemv.warps, SHORT_STEP_TOKENS));
  Value keys = frame.shared(chooseWarps * routing.sharedBytes());
  e.when(e.both(last, e.less(e.warp(), chooseWarps)), [&] {
    Value mine = e.row(keys, e.i32(), e.warp(), routing.experts);
    e.loop(e.warp(), tokens, e.c(chooseWarps), [&](Value token) {
      emitTopK(e, routing, e.row(logits, e.f32(), token, routing.experts),
               e.row(frame.binding(s.xNorm() + 1), e.i32(), token, routing.topK),
               e.row(frame.binding(s.xNorm() + 2), e.f32(), token, routing.topK), mine);
    });
  });
}

} // namespace

void emitNormRoute(KernelBuilder &kernel) {
  RouteShape s(kernel);
  GateUp shared(s.in, std::max<int64_t>(s.shared, 1));
  kernel.parameters(s.shared ? 9 : 6, 2);
  kernel.result.scratch.per_token = 4 * s.routing.experts; // logits
  StageShape launch{.x = {.fixed = s.blocks + (s.shared ? shared.blocks() : 0)}, .threads = s.gemv.threads()};
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) {
    GemvInput input{.x = frame.binding(0),
                    .tokens = frame.constantInt(0),
                    .norm = frame.binding(1),
                    .epsilon = frame.constantFloat(1)};
    int64_t mark = frame.mark();
    auto route = [&] {
      emitRouter(e, frame, s, input);
      return Values();
    };
    if (!s.shared) {
      route();
      return;
    }
    e.choose(e.less(e.block(0), s.blocks), route, [&] {
      frame.release(mark); // no block is of both kinds
      shared.emit(e, frame, e.sub(e.block(0), s.blocks), input,
                  {.gate = frame.binding(3), .up = frame.binding(4), .h = frame.binding(s.xNorm() + 3)});
      return Values();
    });
  });
}

} // namespace smelt::codegen::cuda
