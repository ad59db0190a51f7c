// Matrix operands spread over a warp's registers, as mma.sync and wgmma share them.
#pragma once

#include "tests/support/cuda/sim/Half.h"
#include "tests/support/cuda/sim/Warp.h"

namespace smelt::emu {

enum class Element : uint8_t { Bf16, F16, Tf32 };

float elementToFloat(Element kind, uint32_t bits);

/// c[rows][columns] += a[rows][depth] b[depth][columns], k ascending in f32.
void multiplyAdd(const float *a, const float *b, float *c, uint32_t rows, uint32_t columns, uint32_t depth);

/// The 16 x depth left operand of a warp: with g = lane / 4 and q = lane % 4, register r of a 16-bit type
/// holds row g + 8 (r & 1), columns 2q and 2q + 1, + 8 (r >> 1); of tf32 column q + 4 (r >> 1).
void gatherA(const Warp &warp, const Ref *refs, Element kind, uint32_t depth, float *a);

} // namespace smelt::emu
