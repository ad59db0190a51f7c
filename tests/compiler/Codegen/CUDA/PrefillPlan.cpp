#include "tests/compiler/Codegen/CUDA/PrefillPlan.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace smelt::codegen::cuda::test {

Ints randomChoices(int64_t tokens, int64_t experts, int64_t top_k, uint32_t seed, int skew) {
  std::mt19937 generator(seed);
  Ints chosen;
  for (int64_t t = 0; t < tokens; ++t) {
    Ints row;
    while (static_cast<int64_t>(row.size()) < top_k) {
      int32_t expert = static_cast<int32_t>(generator() % experts);
      for (int i = 0; i < skew; ++i) {
        expert = std::min(expert, static_cast<int32_t>(generator() % experts));
      }
      if (std::find(row.begin(), row.end(), expert) == row.end()) {
        row.push_back(expert);
      }
    }
    chosen.insert(chosen.end(), row.begin(), row.end());
  }
  return chosen;
}

Ints planOf(const Ints &choices, int64_t experts, int64_t top_k) {
  int64_t pairs = choices.size();
  Ints order(pairs), plan(2 * experts + 2 + 2 * pairs);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return choices[a] < choices[b]; });
  int32_t *slotToken = &plan[2 * experts + 2], *slotOf = slotToken + pairs;
  Ints rows(experts);
  for (int32_t expert : choices) {
    ++rows[expert];
  }
  int32_t &active = plan[experts + 1];
  for (int64_t e = 0; e < experts; ++e) {
    plan[e + 1] = plan[e] + rows[e];
  }
  active = 0;
  for (int64_t e = 0; e < experts; ++e) {
    if (rows[e]) {
      plan[experts + 2 + active++] = static_cast<int32_t>(e);
    }
  }
  for (int64_t slot = 0; slot < pairs; ++slot) {
    slotToken[slot] = static_cast<int32_t>(order[slot] / top_k);
    slotOf[order[slot]] = static_cast<int32_t>(slot);
  }
  return plan;
}

} // namespace smelt::codegen::cuda::test
