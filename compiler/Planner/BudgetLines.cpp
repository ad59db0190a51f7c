#include "compiler/Planner/BudgetLines.h"

namespace smelt::planner {
namespace {

using spec::FfnKind;
using spec::ModelSpec;
using spec::QkNorm;
using spec::Segment;

int64_t loopedKvHeads(const Shape &shape) {
  return shape.looped_kv_heads > 0 ? shape.looped_kv_heads : shape.kv_heads;
}

} // namespace

Wide floorDivide(Wide a, Wide b) {
  const Wide quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

void BudgetLines::Group::add(const Segment &segment) {
  stored += segment.layers;
  executed += segment.executedLayers();
  biased += segment.attention.qkv_bias ? segment.layers : 0;
  per_head_norm += segment.attention.qk_norm == QkNorm::per_head ? segment.layers : 0;
  full_width_norm += segment.attention.qk_norm == QkNorm::full_width ? segment.layers : 0;
}

Wide BudgetLines::Group::params(Wide hidden, Wide query, Wide kv, Wide head_dim) const {
  return stored * 2 * hidden * (query + kv + 1) + biased * (query + 2 * kv) + per_head_norm * 2 * head_dim +
         full_width_norm * (query + kv);
}

BudgetLines::BudgetLines(const ModelSpec &baseline, const ModelSpec &looped_spec, budget::Attended attended)
    : baseline(baseline), attended(attended) {
  for (const Segment &segment : looped_spec.segments) {
    (segment.visits > 1 ? looped : once).add(segment);
    const bool moe = segment.ffn == FfnKind::moe;
    (moe ? moe_stored : dense_stored) += segment.layers;
    (moe ? moe_executed : dense_executed) += segment.executedLayers();
  }
}

Line BudgetLines::params(const Shape &shape) const {
  const Wide hidden = shape.hidden_size;
  const Wide dim = shape.head_dim;
  const Wide query = shape.query_heads * dim;
  return {.at = once.params(hidden, query, shape.kv_heads * dim, dim) +
                looped.params(hidden, query, loopedKvHeads(shape) * dim, dim) +
                moe_stored * 3 * hidden * sharedWidth(baseline, shape) +
                dense_stored * 3 * hidden * mlpWidth(baseline, shape),
          .per_expert = moe_stored * hidden * (1 + 3 * Wide(shape.expert_hidden_size))};
}

Line BudgetLines::trainingFlops(const Shape &shape) const {
  const Wide hidden = shape.hidden_size;
  const Wide query = Wide(shape.query_heads) * shape.head_dim;
  const Wide kv = Wide(shape.kv_heads) * shape.head_dim;
  const Wide looped_kv = Wide(loopedKvHeads(shape)) * shape.head_dim;
  const Wide active = Wide(shape.top_k) * shape.expert_hidden_size + sharedWidth(baseline, shape);
  const Wide scores = query * (4 * Wide(attended.whole()) + (attended.half() ? 2 : 0));
  return {.at = 3 * (once.executed * (4 * hidden * (query + kv) + scores) +
                     looped.executed * (4 * hidden * (query + looped_kv) + scores) +
                     moe_executed * 6 * hidden * active +
                     dense_executed * 6 * hidden * mlpWidth(baseline, shape)),
          .per_expert = 3 * moe_executed * 2 * hidden};
}

Wide BudgetLines::kvElements(int64_t kv_heads, int64_t looped_kv_heads, int64_t head_dim) const {
  return Wide(2) * head_dim *
         (once.executed * Wide(kv_heads) +
          looped.executed * Wide(looped_kv_heads > 0 ? looped_kv_heads : kv_heads));
}

} // namespace smelt::planner
