// The exhaustive search for the shape of a looped model: pure integers in, ranked shapes out.
#pragma once

#include "compiler/Budget/Attended.h"
#include "compiler/Budget/Budget.h"
#include "compiler/Planner/Baseline.h"
#include "compiler/Planner/Collector.h"
#include "compiler/Planner/KvChoice.h"
#include "compiler/Planner/Latency.h"
#include "compiler/Planner/Lattice.h"
#include "compiler/Planner/RankedShape.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace smelt::planner {

struct ShapeLattice {
  Axis hidden_size;
  Axis expert_hidden_size;
  Axis experts;
  Axis query_heads; // of which only multiples of the KV heads of every layer are visited
  Axis top_k;
};

// One way to loop the baseline, with the KV geometries to try on it.
struct Loop {
  const budget::Architecture *looped = nullptr;
  int64_t visits = 1;     // of its loop
  double depth_ratio = 1; // its layers over the baseline's
  std::vector<KvChoice> kv_choices = {};
};

struct SearchRequest {
  const Baseline *baseline = nullptr; // gives the reference shape
  std::vector<Loop> loops;
  budget::Budget target; // of the baseline
  budget::Attended attended;
  ShapeLattice lattice;
  Targets targets;
  // For targets that ask for it: what to predict, and the baseline's.
  const LatencyRequest *latency = nullptr;
  int64_t target_picoseconds = 0;
  Goal goal = Goal::best;
  size_t keep = 1; // points to return, but of a front, which is returned whole
  // Points of this very request that are known already: a front's search rules out what they better.
  std::vector<RankedShape> known = {};
  unsigned threads = 0; // 0: one for each processor
  // Called now and then, from any one thread at a time, with the part that is done.
  std::function<void(double)> progress = {};
};

// The points of the lattice within the targets' tolerances that the goal asks for, best first. Visits every
// point that could still belong to the result: for every choice of the other variables, the best numbers of
// experts follow from the budgets, which are linear in it. The same for any number of threads.
std::vector<RankedShape> searchShapes(const SearchRequest &request);

} // namespace smelt::planner
