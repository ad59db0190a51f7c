// How a search is cut into parts for the threads.
#pragma once

#include "compiler/Planner/ShapeSearch.h"

namespace smelt::planner {

// A part of the lattice: one loop, KV geometry, top_k and number of query heads.
struct Unit {
  size_t loop = 0;
  Shape shape;            // with those set
  double kv_residual = 0; // signed
  Bound bound;
};

// Those within the KV cache's tolerance, the most promising first: their points then rule out most of the
// rest.
std::vector<Unit> listUnits(const SearchRequest &request);

} // namespace smelt::planner
