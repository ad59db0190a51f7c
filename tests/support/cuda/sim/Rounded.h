// f32 and f64 arithmetic with rounding toward zero, down and up: rare, so done one lane at a time with the
// host's rounding mode (this file is compiled with -frounding-math).
#pragma once

#include "tests/support/cuda/sim/Program.h"

namespace smelt::emu {

enum class RoundedOp : uint8_t { Add, Sub, Mul, Div, Fma, Rcp, Sqrt };

/// Instr::x is the mode (0 nearest, 1 toward zero, 2 down, 3 up), y flushes subnormals, z saturates.
Handler roundedHandler(RoundedOp op, bool f64);

/// An integer or a narrower float from `value` in the mode given.
float narrowRounded(double value, uint32_t mode);

} // namespace smelt::emu
