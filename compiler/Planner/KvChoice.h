// The KV geometries the matcher tries on a loop.
#pragma once

#include "compiler/Planner/Lattice.h"

#include <compare>
#include <cstdint>
#include <vector>

namespace smelt::planner {

// KV heads of the unlooped and of the looped layers, with the size of all heads.
struct KvChoice {
  int64_t kv_heads = 0;
  int64_t looped_kv_heads = 0; // 0: as kv_heads
  int64_t head_dim = 0;

  auto operator<=>(const KvChoice &) const = default;
};

// One geometry for all layers.
std::vector<KvChoice> uniformKvChoices(const Axis &kv_heads, const Axis &head_dim);

// Looped layers with KV heads of their own: every combination.
std::vector<KvChoice> perSegmentKvChoices(const Axis &kv_heads, const Axis &looped_kv_heads,
                                          const Axis &head_dim);

// Those whose KV cache is exactly the baseline's: unlooped layers keep its KV width, and looped ones have the
// width divided by the visits.
std::vector<KvChoice> exactKvChoices(int64_t kv_width, int64_t visits, const Axis &head_dim);

} // namespace smelt::planner
