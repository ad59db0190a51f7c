#include "compiler/Planner/KvChoice.h"

namespace smelt::planner {

std::vector<KvChoice> uniformKvChoices(const Axis &kv_heads, const Axis &head_dim) {
  std::vector<KvChoice> choices;
  for (const int64_t heads : kv_heads.values()) {
    for (const int64_t dim : head_dim.values()) {
      choices.push_back({heads, 0, dim});
    }
  }
  return choices;
}

std::vector<KvChoice> perSegmentKvChoices(const Axis &kv_heads, const Axis &looped_kv_heads,
                                          const Axis &head_dim) {
  std::vector<KvChoice> choices;
  for (const KvChoice &uniform : uniformKvChoices(kv_heads, head_dim)) {
    for (const int64_t looped : looped_kv_heads.values()) {
      choices.push_back({uniform.kv_heads, looped, uniform.head_dim});
    }
  }
  return choices;
}

std::vector<KvChoice> exactKvChoices(int64_t kv_width, int64_t visits, const Axis &head_dim) {
  std::vector<KvChoice> choices;
  for (const int64_t dim : head_dim.values()) {
    if (kv_width % (dim * visits) == 0) {
      choices.push_back({kv_width / dim, kv_width / (dim * visits), dim});
    }
  }
  return choices;
}

std::vector<KvChoice> rankChoices(const Axis &kv_rank, const Axis &looped_kv_rank, int64_t head_dim) {
  std::vector<KvChoice> choices;
  for (const int64_t rank : kv_rank.values()) {
    for (const int64_t looped : looped_kv_rank.empty() ? std::vector<int64_t>{0} : looped_kv_rank.values()) {
      choices.push_back({.head_dim = head_dim, .kv_rank = rank, .looped_kv_rank = looped});
    }
  }
  return choices;
}

std::vector<KvChoice> exactRankChoices(int64_t kv_rank, int64_t rope_dim, int64_t visits, int64_t head_dim) {
  const int64_t width = kv_rank + rope_dim;
  const int64_t looped = width / visits - rope_dim;
  if (width % visits != 0 || looped < 1) {
    return {};
  }
  return {{.head_dim = head_dim, .kv_rank = kv_rank, .looped_kv_rank = looped}};
}

} // namespace smelt::planner
