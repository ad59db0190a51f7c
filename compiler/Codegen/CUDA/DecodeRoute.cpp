// RMSNorm, router and choice of experts in one kernel of short steps.
#include "compiler/Codegen/CUDA/DecodeGemv.h"
#include "compiler/Codegen/CUDA/TopK.h"
#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <algorithm>

namespace smelt::codegen::cuda {

namespace {
constexpr int64_t KEY_BYTES = 32 << 10; // shared memory for the choice, unless one token takes more
}

void emitNormRoute(KernelBuilder &kernel) {
  int64_t in = kernel.param("in");
  Routing routing(kernel);
  GemvShape shape{.in = in, .rows = 1};
  kernel.parameters(6, 2);
  kernel.result.scratch.per_token = 4 * routing.experts; // logits
  StageShape launch{.x = {.fixed = routing.experts, .divisor = shape.warps}, .threads = shape.threads()};
  kernel.stage(launch, [&](Emitter &e, StageFrame &frame) {
    Value tokens = frame.constantInt(0), logits = frame.scratch();
    GemvInput input{
        .x = frame.binding(0), .tokens = tokens, .norm = frame.binding(1), .epsilon = frame.constantFloat(1)};
    Value flag = frame.shared(4);
    int64_t mark = frame.mark();
    Gemv gemv(e, frame, shape, input);
    Value expert = e.add(e.mul(e.block(0), shape.warps), e.warp());
    Value row = e.row(frame.binding(2), e.bf16(), e.min(expert, routing.experts - 1), rowStride(in));
    Value logit = gemv.multiply(row)[0];
    e.when(e.both(gemv.laneActive(), e.less(expert, routing.experts)),
           [&] { e.storeF32(logit, e.row(logits, e.f32(), gemv.laneToken(), routing.experts), expert); });
    storeNormalised(e, gemv, input, in, shape.threads(), frame.binding(3));
    Value last = e.lastToArrive(frame.ticket(0), e.blocks(0), flag);
    // The activations are done with: their memory serves the choice.
    frame.release(mark);
    int64_t chooseWarps =
        std::clamp<int64_t>(KEY_BYTES / routing.sharedBytes(), 1, std::min(shape.warps, SHORT_STEP_TOKENS));
    Value keys = frame.shared(chooseWarps * routing.sharedBytes());
    e.when(e.both(last, e.less(e.warp(), chooseWarps)), [&] {
      Value mine = e.row(keys, e.i32(), e.warp(), routing.experts);
      e.loop(e.warp(), tokens, e.c(chooseWarps), [&](Value token) {
        emitTopK(e, routing, e.row(logits, e.f32(), token, routing.experts),
                 e.row(frame.binding(4), e.i32(), token, routing.topK),
                 e.row(frame.binding(5), e.f32(), token, routing.topK), mine);
      });
    });
  });
}

} // namespace smelt::codegen::cuda
