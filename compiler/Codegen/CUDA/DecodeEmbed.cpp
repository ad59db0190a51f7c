// Rows of the embedding table as the residual stream.
#include "compiler/Codegen/CUDA/Kernels.h"
#include "compiler/Codegen/CUDA/WeightPacking.h"

namespace smelt::codegen::cuda {

// One block a token and span of columns; eight columns, 16 bytes of the table, a thread.
void emitEmbed(KernelBuilder &kernel) {
  constexpr int64_t threads = 128, perThread = 8;
  int64_t hidden = kernel.param("hidden");
  kernel.parameters(3, 1);
  StageShape shape;
  shape.threads = threads;
  shape.x = {.fixed = hidden, .divisor = threads * perThread};
  shape.y = {.fixed = 0, .per_token = 1};
  kernel.stage(shape, [&](Emitter &e, StageFrame &frame) {
    Value column = e.mul(e.add(e.mul(e.block(0), threads), e.thread()), perThread);
    e.when(e.less(column, hidden), [&] {
      Value token = e.block(1);
      Value row = e.row(frame.binding(1), e.bf16(), e.readI32(frame.binding(0), token), rowStride(hidden));
      Value out = e.row(frame.binding(2), e.f32(), token, hidden);
      Values words = e.stream(e.at(row, e.bf16(), column));
      for (int64_t i = 0; i < perThread; ++i) {
        Value at = e.add(column, i);
        Value value = i % 2 ? e.high(words[i / 2]) : e.low(words[i / 2]);
        if (hidden % perThread == 0) {
          e.storeF32(value, out, at);
        } else {
          e.when(e.less(at, hidden), [&] { e.storeF32(value, out, at); });
        }
      }
    });
  });
}

} // namespace smelt::codegen::cuda
