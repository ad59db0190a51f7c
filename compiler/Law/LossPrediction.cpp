#include "compiler/Law/LossPrediction.h"

#include "compiler/Law/PublishedLaws.h"

#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace smelt::law {
namespace {

bool isAsFitted(const LoopedSpan &loop) {
  return loop.visits == 2 && std::abs(2 * loop.looped - loop.layers) <= 1;
}

std::string loopText(const LoopedSpan &loop) {
  return fmt::format("{} of {} layers visited {} times", loop.looped, loop.layers, loop.visits);
}

std::string caveatText(const std::vector<std::string> &loops) {
  return fmt::format("the law '{}' describes half of the layers visited twice, not {}", loopedLaw().name,
                     loops.empty() ? "a model without a loop" : fmt::format("{}", fmt::join(loops, " and ")));
}

} // namespace

spec::ModelSpec fullyActiveControl(const spec::ModelSpec &model) {
  spec::ModelSpec control = model;
  if (control.moe) {
    control.moe->experts = control.moe->top_k;
  }
  return control;
}

budget::Architecture fullyActiveControl(const budget::Architecture &model) {
  budget::Architecture control = model;
  for (budget::LayerGroup &group : control.groups) {
    if (auto *experts = std::get_if<budget::ExpertMlp>(&group.layer.ffn)) {
      experts->experts = experts->top_k;
    }
  }
  return control;
}

double sparsity(const budget::Budget &model, const budget::Budget &control) {
  double flops = static_cast<double>(model.training_flops_per_token);
  double control_flops = static_cast<double>(control.training_flops_per_token);
  double params = static_cast<double>(model.non_embedding_params);
  double control_params = static_cast<double>(control.non_embedding_params);
  return 1 - (flops / control_flops) * (control_params / params);
}

LossPrediction predictLoss(const ScalingLaw &law, const budget::Budget &model, const budget::Budget &control,
                           double tokens) {
  LossPrediction prediction;
  prediction.law = &law;
  prediction.run = {static_cast<double>(model.training_flops_per_token), sparsity(model, control), tokens};
  prediction.loss = loss(law, prediction.run);
  prediction.outside = outside(law, prediction.run);
  return prediction;
}

PairPrediction predictPair(const budget::Budget &baseline, const budget::Budget &looped,
                           const budget::Budget &control, double tokens) {
  return {predictLoss(baselineLaw(), baseline, control, tokens),
          predictLoss(loopedLaw(), looped, control, tokens)};
}

std::string loopCaveat(const spec::ModelSpec &looped) {
  std::vector<std::string> loops;
  bool as_fitted = false;
  for (const spec::Segment &segment : looped.segments) {
    if (segment.visits > 1) {
      const LoopedSpan loop{segment.layers, looped.physicalLayers(), segment.visits};
      const bool in_turn = segment.order == spec::VisitOrder::layer;
      as_fitted = isAsFitted(loop) && !in_turn;
      loops.push_back(loopText(loop) + (in_turn ? ", each in turn" : ""));
    }
  }
  return loops.size() == 1 && as_fitted ? "" : caveatText(loops);
}

std::string loopCaveat(const LoopedSpan &loop) {
  return isAsFitted(loop) ? "" : caveatText({loopText(loop)});
}

} // namespace smelt::law
