#include "compiler/Planner/HardwareFit.h"

#include <algorithm>
#include <bit>

namespace smelt::planner {
namespace {

__int128 roundUp(int64_t value, int64_t tile) { return (__int128(value) + tile - 1) / tile * tile; }

// Multiplications per token of the layers' matrices over H, of an unlooped and a looped layer together, with
// the given widths.
__int128 products(const Shape &shape, __int128 hidden, __int128 head_dim, __int128 expert_width,
                  int64_t rank_tile) {
  const auto looped = [](int64_t own, int64_t others) { return own > 0 ? own : others; };
  const __int128 heads = 4 * __int128(shape.query_heads) +
                         2 * (__int128(shape.kv_heads) + looped(shape.looped_kv_heads, shape.kv_heads));
  const __int128 ranks =
      roundUp(shape.kv_rank, rank_tile) + roundUp(looped(shape.looped_kv_rank, shape.kv_rank), rank_tile);
  return hidden * (heads * head_dim + ranks + 6 * __int128(shape.top_k) * expert_width);
}

} // namespace

int64_t missingFactors(int64_t value, int64_t wanted) {
  return std::max<int64_t>(0, std::countr_zero(static_cast<uint64_t>(wanted)) -
                                  std::countr_zero(static_cast<uint64_t>(value)));
}

int64_t missingHeadFactors(const Shape &shape) {
  int64_t missing = missingFactors(shape.head_dim, kGoodHeadDim);
  for (const int64_t rank : {shape.kv_rank, shape.looped_kv_rank}) {
    missing += rank > 0 ? missingFactors(rank, kGoodHeadDim) : 0;
  }
  return missing;
}

int64_t paddingPercent(const Shape &shape) {
  const __int128 needed = products(shape, shape.hidden_size, shape.head_dim, shape.expert_hidden_size, 1);
  const __int128 padded =
      products(shape, roundUp(shape.hidden_size, kHiddenTile), roundUp(shape.head_dim, kHeadDimTile),
               roundUp(shape.expert_hidden_size, kExpertWidthTile), kHeadDimTile);
  return static_cast<int64_t>((100 * (padded - needed) + needed - 1) / needed);
}

HardwareFit hardwareFit(const Shape &shape) {
  return {.missing_factors = missingHeadFactors(shape) + missingFactors(shape.hidden_size, kGoodHiddenSize) +
                             missingFactors(shape.expert_hidden_size, kGoodExpertWidth) +
                             missingFactors(shape.experts, kGoodExperts),
          .padding_percent = paddingPercent(shape)};
}

} // namespace smelt::planner
