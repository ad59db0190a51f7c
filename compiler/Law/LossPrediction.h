// What the published laws say about a baseline and the looped model planned from it.
#pragma once

#include "compiler/Budget/Architecture.h"
#include "compiler/Budget/Budget.h"
#include "compiler/Law/ScalingLaw.h"
#include "compiler/Spec/ModelSpec.h"

#include <string>
#include <vector>

namespace smelt::law {

// The model that S is measured against: the same with as many experts as a token uses. A model without
// experts is its own control.
spec::ModelSpec fullyActiveControl(const spec::ModelSpec &model);
budget::Architecture fullyActiveControl(const budget::Architecture &model);

// S = 1 − (F/F0)·(N0/N): F training FLOPs per token and N non-embedding parameters of the model, F0 and N0 of
// its control. Below 0 for a model that spends more FLOPs per parameter than the control.
double sparsity(const budget::Budget &model, const budget::Budget &control);

struct LossPrediction {
  const ScalingLaw *law = nullptr;
  TrainingRun run;
  double loss = 0;                  // nats per token
  std::vector<std::string> outside; // why it is an extrapolation; empty when it is none
};

LossPrediction predictLoss(const ScalingLaw &law, const budget::Budget &model, const budget::Budget &control,
                           double tokens);

// Both models trained on the same number of tokens, by the laws of the published study.
struct PairPrediction {
  LossPrediction baseline;
  LossPrediction looped;
};

// The looped law describes one span of half the layers, visited twice in block order: says how a model
// differs from that, or "".
std::string loopCaveat(const spec::ModelSpec &looped);
// The same for one span in block order.
struct LoopedSpan {
  int64_t looped = 0; // layers
  int64_t layers = 0; // of the whole model, each once
  int64_t visits = 1;
};
std::string loopCaveat(const LoopedSpan &loop);

// `control` is the baseline's, for both models: the published definition compares with an unlooped model.
PairPrediction predictPair(const budget::Budget &baseline, const budget::Budget &looped,
                           const budget::Budget &control, double tokens);

} // namespace smelt::law
