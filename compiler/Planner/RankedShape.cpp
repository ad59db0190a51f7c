#include "compiler/Planner/RankedShape.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace smelt::planner {

double Residuals::worst() const { return worst(Targets()); }

double Residuals::sum() const { return sum(Targets()); }

double Residuals::worst(const Targets &targets) const {
  return std::max({targets.training_flops.weight * std::fabs(training_flops),
                   targets.non_embedding_params.weight * std::fabs(non_embedding_params),
                   targets.kv_cache.weight * std::fabs(kv_cache),
                   targets.latency.weight * std::fabs(latency)});
}

// The KV cache first and the latency last, as the search learns them: a partial sum is then never above the
// whole.
double Residuals::sum(const Targets &targets) const {
  return targets.kv_cache.weight * std::fabs(kv_cache) +
         targets.training_flops.weight * std::fabs(training_flops) +
         targets.non_embedding_params.weight * std::fabs(non_embedding_params) +
         targets.latency.weight * std::fabs(latency);
}

bool Residuals::within(const Targets &targets) const {
  return std::fabs(training_flops) <= targets.training_flops.tolerance &&
         std::fabs(non_embedding_params) <= targets.non_embedding_params.tolerance &&
         std::fabs(kv_cache) <= targets.kv_cache.tolerance && std::fabs(latency) <= targets.latency.tolerance;
}

bool RankedShape::operator<(const RankedShape &other) const {
  return std::tie(score, loop, shape) < std::tie(other.score, other.loop, other.shape);
}

FrontKey frontKey(double worst, double shape_distance, int64_t misfit) {
  // A residual that is a whole number of steps but for rounding is not the next step up.
  return {static_cast<int64_t>(std::ceil(worst / kResidualStep - 1e-9)),
          std::llround(shape_distance / kDistanceStep), misfit};
}

FrontKey frontKey(const RankedShape &ranked) {
  return frontKey(ranked.worst, ranked.shape_distance, ranked.fit.misfit());
}

} // namespace smelt::planner
