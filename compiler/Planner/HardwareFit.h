// How well a shape suits matrix units: what the third axis of the Pareto front measures.
#pragma once

#include "compiler/Planner/Shape.h"

#include <cstdint>

namespace smelt::planner {

// Widths that fill the tiles of matrix units without a remainder.
inline constexpr int64_t kGoodHeadDim = 64; // and KV rank
inline constexpr int64_t kGoodHiddenSize = 128;
inline constexpr int64_t kGoodExpertWidth = 64;
inline constexpr int64_t kGoodExperts = 8;

// Tiles to which kernels round up; what lies between is computed for nothing.
inline constexpr int64_t kHeadDimTile = 16; // and KV ranks
inline constexpr int64_t kHiddenTile = 64;
inline constexpr int64_t kExpertWidthTile = 32;

struct HardwareFit {
  // Factors of two that head_dim, KV ranks, H, F and E lack of being multiples of the above.
  int64_t missing_factors = 0;
  int64_t padding_percent = 0; // multiplications added by rounding up to tiles; whole per cent, rounded up

  // Lower is better; 0 is a perfect fit. One missing factor of two weighs as much as 1 % of padding.
  int64_t misfit() const { return missing_factors + padding_percent; }
  bool operator==(const HardwareFit &) const = default;
};

// Factors of two that value lacks of being a multiple of `wanted`, a power of two.
int64_t missingFactors(int64_t value, int64_t wanted);

// The factors that the heads of a shape lack: of head_dim, and of the KV ranks of latent attention.
int64_t missingHeadFactors(const Shape &shape);

// Padding of the projections and the routed experts of one layer; the router is too small to matter.
int64_t paddingPercent(const Shape &shape);

HardwareFit hardwareFit(const Shape &shape);

} // namespace smelt::planner
