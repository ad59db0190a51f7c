// Latency of the many shapes that a search visits.
#pragma once

#include "compiler/Planner/Latency.h"
#include "compiler/Planner/Shape.h"

namespace smelt::planner {

// Predicts latency for the shapes of one unit, which have the heads in common.
class UnitLatency {
public:
  UnitLatency(const Baseline &baseline, const budget::Architecture &looped, const Shape &shape,
              const LatencyRequest &request)
      : baseline(baseline), request(request), model(layersByKind(applyShape(baseline, looped, shape))) {}

  // The same as of applyShape(), without making it anew.
  int64_t picoseconds(const Shape &shape) {
    model.hidden_size = shape.hidden_size;
    for (budget::LayerGroup &group : model.groups) {
      if (auto *experts = std::get_if<budget::ExpertMlp>(&group.layer.ffn)) {
        experts->experts = shape.experts;
        experts->width = shape.expert_hidden_size;
        experts->shared_width = sharedWidth(baseline, shape.expert_hidden_size);
      } else {
        std::get<budget::DenseMlp>(group.layer.ffn).width = mlpWidth(baseline, shape.hidden_size);
      }
    }
    return predictedPicosecondsOfKinds(model, request);
  }

private:
  const Baseline &baseline;
  const LatencyRequest &request;
  budget::Architecture model;
};

} // namespace smelt::planner
