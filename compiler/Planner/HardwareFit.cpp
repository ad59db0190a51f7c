#include "compiler/Planner/HardwareFit.h"

#include <algorithm>
#include <bit>

namespace smelt::planner {
namespace {

__int128 roundUp(int64_t value, int64_t tile) { return (__int128(value) + tile - 1) / tile * tile; }

// Multiplications per token of the layers' matrices over H, with the given widths.
__int128 products(const Shape &shape, __int128 hidden, __int128 head_dim, __int128 expert_width) {
  const int64_t looped = shape.looped_kv_heads > 0 ? shape.looped_kv_heads : shape.kv_heads;
  // Of an unlooped and a looped layer together.
  const __int128 heads = 4 * __int128(shape.query_heads) + 2 * (__int128(shape.kv_heads) + looped);
  return hidden * (heads * head_dim + 6 * __int128(shape.top_k) * expert_width);
}

} // namespace

int64_t missingFactors(int64_t value, int64_t wanted) {
  return std::max<int64_t>(0, std::countr_zero(static_cast<uint64_t>(wanted)) -
                                  std::countr_zero(static_cast<uint64_t>(value)));
}

int64_t paddingPercent(const Shape &shape) {
  const __int128 needed = products(shape, shape.hidden_size, shape.head_dim, shape.expert_hidden_size);
  const __int128 padded =
      products(shape, roundUp(shape.hidden_size, kHiddenTile), roundUp(shape.head_dim, kHeadDimTile),
               roundUp(shape.expert_hidden_size, kExpertWidthTile));
  return static_cast<int64_t>((100 * (padded - needed) + needed - 1) / needed);
}

HardwareFit hardwareFit(const Shape &shape) {
  return {.missing_factors = missingFactors(shape.head_dim, kGoodHeadDim) +
                             missingFactors(shape.hidden_size, kGoodHiddenSize) +
                             missingFactors(shape.expert_hidden_size, kGoodExpertWidth) +
                             missingFactors(shape.experts, kGoodExperts),
          .padding_percent = paddingPercent(shape)};
}

} // namespace smelt::planner
