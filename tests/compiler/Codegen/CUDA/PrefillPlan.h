// Routing for tests: who chose whom, and the plan that follows (docs/program.md).
#pragma once

#include "tests/compiler/Codegen/CUDA/PrefillHarness.h"

namespace smelt::codegen::cuda::test {

// top_k different experts for every token; `skew` > 0 prefers low ones.
Ints randomChoices(int64_t tokens, int64_t experts, int64_t top_k, uint32_t seed, int skew = 0);

// offsets[E + 1] | active_count | active[E], zeros behind the active ones | slot_token[T * k] | slot_of[T *
// k].
Ints planOf(const Ints &choices, int64_t experts, int64_t top_k);

} // namespace smelt::codegen::cuda::test
