// What a search keeps of the points it visits, and which points it need not visit.
#pragma once

#include "compiler/Planner/RankedShape.h"

#include <memory>
#include <vector>

namespace smelt::planner {

// What is known of every point below a node of the search: the differences, distance and misfit of each are
// at least these.
struct Bound {
  double squares = 0; // of the shape distance
  double sum = 0;     // of the differences known so far, weighted: the KV cache first
  double worst = 0;   // of the same
  int64_t misfit = 0;
};

enum class Goal {
  best,    // lowest scores
  nearest, // smallest sums of residuals
  front    // not bettered in worst residual, shape distance and misfit at once
};

class Collector {
public:
  virtual ~Collector() = default;
  // No point below the bound can enter the result. Strict, so that all of several equal points are seen. What
  // is hopeless is so with a larger distance, too.
  virtual bool hopeless(const Bound &bound) const = 0;
  // The largest weighted difference of one budget with which a point below the bound could enter the result.
  virtual double room(const Bound &bound) const = 0;
  virtual void take(const RankedShape &ranked) = 0;
  virtual std::vector<RankedShape> points() const = 0; // best first
};

// `keep` bounds the points of the goals best and nearest, of which there is one for each choice of everything
// but the experts. The same points in any order give the same result.
std::unique_ptr<Collector> makeCollector(Goal goal, size_t keep);

} // namespace smelt::planner
