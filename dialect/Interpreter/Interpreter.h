// The oracle of all numerics: evaluates a smelt model in double precision, on one sequence of tokens.
//
// Loops, unrolled segments and fused ops are all evaluated, so a model can be compared with itself before and
// after a pass: passes that keep the arithmetic keep every bit.
#pragma once

#include "dialect/IR/SmeltOps.h"
#include "dialect/Interpreter/Tensor.h"
#include "dialect/Interpreter/WeightSource.h"

#include <functional>
#include <vector>

namespace mlir::smelt::interpreter {

// Where in a model's execution an op is evaluated. The slot of the KV cache names the executed layer and does
// not change when a segment is unrolled; all are -1 outside segments.
struct Place {
  int64_t layer = -1; // physical
  int64_t visit = -1;
  int64_t slot = -1;
};

// What one smelt.route did in one executed layer.
struct Routing {
  Place place;
  Tensor logits;  // [T][experts]
  Tensor indices; // [T][top_k], by descending logit unless forced
  Tensor weights; // [T][top_k]
  // For each token, how far the lowest chosen logit is above the highest other one: negative only when the
  // routing was forced, infinite when every expert is chosen.
  std::vector<double> gaps;
};

struct Options {
  // The experts of one token, top_k of them, instead of those with the highest logits; empty for those.
  std::function<std::vector<int32_t>(const Place &, int64_t token)> forcedExperts;
  std::function<void(const Routing &)> onRouting;
  // Every value, as it is computed. Values in segments come once for each executed layer.
  std::function<void(Value, const Place &, const Tensor &)> onValue;
};

// The logits [T][vocab_size] after each token, which stand at positions 0..T-1. Fails with a diagnostic when
// there is no smelt.forward, no token, a token outside the vocabulary, or a weight that cannot be read.
FailureOr<Tensor> interpret(ModelOp model, WeightSource &weights, ArrayRef<int32_t> tokens,
                            const Options &options = {});

} // namespace mlir::smelt::interpreter
