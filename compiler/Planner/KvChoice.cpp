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

} // namespace smelt::planner
