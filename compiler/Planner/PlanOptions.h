// What may be asked of the matcher.
#pragma once

#include "compiler/Budget/Attended.h"
#include "compiler/Planner/Latency.h"
#include "compiler/Planner/Lattice.h"
#include "compiler/Planner/RankedShape.h"
#include "compiler/Planner/ShapeSearch.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::planner {

enum class Geometry {
  uniform,    // all layers have the same heads
  per_segment // looped layers have KV heads of their own
};

std::string_view geometryName(Geometry geometry); // "uniform" or "per_segment"
std::optional<Geometry> parseGeometry(std::string_view name);

struct PlanOptions {
  double span = 0.5;  // part of the layers that loops, more than 0 and at most 1
  int64_t visits = 2; // at least 2
  budget::Attended attended = {};
  double tolerance = 0.05; // largest relative difference of each budget in a match
  size_t runners_up = 4;   // matches to return besides the pick
  std::string name = {};   // of the result; "" for the baseline's name with "-looped" added

  Geometry geometry = Geometry::uniform;
  // Each budget's own tolerance and weight; `tolerance` for all when left out.
  std::optional<Targets> targets = std::nullopt;

  // Predicts this step of every model. A target only where `targets` asks for latency.
  std::optional<LatencyRequest> latency = std::nullopt;

  // Free variables, at the defaults of latticeFor() unless something is asked for.
  Lattice hidden_size = {};
  Lattice head_dim = {};
  Lattice expert_hidden_size = {};
  Lattice experts = {};
  Lattice query_heads = {};
  std::vector<int64_t> kv_heads = {};        // numbers of KV heads to try; empty: the baseline's
  std::vector<int64_t> looped_kv_heads = {}; // per_segment only; empty: the KV heads over the visits
  // Of latent attention, in place of head_dim and KV heads.
  Lattice kv_rank = {};
  std::vector<int64_t> looped_kv_ranks = {}; // per_segment only; empty: the rank that keeps the KV cache

  // Free on request; empty: the baseline's or the one above.
  std::vector<int64_t> top_k = {};
  std::vector<int64_t> layers = {};
  std::vector<double> spans = {};
  std::vector<int64_t> visit_counts = {};

  bool front = true;    // look for the Pareto front, too
  unsigned threads = 0; // 0: one for each processor; the result is the same for any number
  // Called now and then with the part of the search at hand that is done.
  std::function<void(double)> progress = {};

  Targets effectiveTargets() const { return targets.value_or(Targets::within(tolerance)); }
};

// What is out of range, or "".
std::string checkOptions(const PlanOptions &options);

// The lattice that the options give for a baseline: from a quarter to twice the baseline's hidden_size, from
// an eighth to twice its expert width, up to four times its query heads, and from top_k to sixteen times its
// experts.
ShapeLattice latticeFor(const Baseline &baseline, const PlanOptions &options);

// The numbers of KV heads and the head sizes to try: by default the baseline's, and even numbers up to twice
// its KV width over the fewest KV heads.
Axis kvHeadsFor(const Baseline &baseline, const PlanOptions &options);
Axis headDimFor(const Baseline &baseline, const PlanOptions &options);
// The KV ranks to try: by default multiples of 8 up to twice the baseline's, or with ranks per segment the
// baseline's.
Axis kvRankFor(const Baseline &baseline, const PlanOptions &options);

// The KV geometries to try on a loop. In per-segment geometry without KV heads or ranks asked for, those with
// exactly the baseline's KV cache.
std::vector<KvChoice> kvChoicesFor(const Baseline &baseline, const PlanOptions &options, int64_t visits);

// Which variable's lattice has no point or is not the baseline's to choose, or "".
std::string checkLattice(const Baseline &baseline, const PlanOptions &options);

} // namespace smelt::planner
