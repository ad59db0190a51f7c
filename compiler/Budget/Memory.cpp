#include "compiler/Budget/Memory.h"

#include "compiler/Budget/Budget.h"
#include "compiler/Budget/CheckedInt.h"

namespace smelt::budget {
namespace {
constexpr int64_t kKvElementBytes = 4;
} // namespace

std::optional<Memory> estimateMemory(const spec::ModelSpec &spec, int64_t bytes_per_weight,
                                     int64_t positions) {
  const BudgetResult counts = computeBudget(spec, Attended::positions(1));
  if (!counts) {
    return std::nullopt;
  }
  const auto weights = (CheckedInt(counts.budget->total_params) * bytes_per_weight).value();
  const auto kv = (CheckedInt(counts.budget->kv_elements_per_token) * kKvElementBytes * positions).value();
  if (!weights || !kv) {
    return std::nullopt;
  }
  return Memory{.weight_bytes = *weights,
                .kv_bytes = *kv,
                .positions = positions,
                .bytes_per_weight = bytes_per_weight};
}

} // namespace smelt::budget
