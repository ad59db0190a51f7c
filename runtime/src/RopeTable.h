// The table of rotary position embedding angles.
#pragma once

#include <cstdint>

namespace smelt::runtime {

// Fills f32 [capacity][dim]: cos, then sin, dim/2 each, of position * theta^(-2i/dim), computed in double
// precision and rounded once.
void fillRopeTable(float *table, uint64_t capacity, uint32_t dim, double theta);

} // namespace smelt::runtime
