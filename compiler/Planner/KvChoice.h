// The KV geometries the matcher tries on a loop.
#pragma once

#include "compiler/Planner/Lattice.h"

#include <compare>
#include <cstdint>
#include <vector>

namespace smelt::planner {

// KV heads of the unlooped and of the looped layers, with the size of all heads; or the same with KV ranks.
struct KvChoice {
  int64_t kv_heads = 0;
  int64_t looped_kv_heads = 0; // 0: as kv_heads
  int64_t head_dim = 0;
  int64_t kv_rank = 0; // of latent attention
  int64_t looped_kv_rank = 0;

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

// The ranks of latent attention: one for all layers, or looped layers with each of their own.
std::vector<KvChoice> rankChoices(const Axis &kv_rank, const Axis &looped_kv_rank, int64_t head_dim);
inline const Axis kSameRank{1, 1, 0}; // no rank of looped layers' own

// The rank whose cache, kv_rank + rope_dim, is the baseline's divided by the visits: one choice or none.
std::vector<KvChoice> exactRankChoices(int64_t kv_rank, int64_t rope_dim, int64_t visits, int64_t head_dim);

} // namespace smelt::planner
