// From lanes' addresses to host memory, with the checks that every access goes through.
#pragma once

#include "tests/support/cuda/sim/Cta.h"

namespace smelt::emu {

/// The addresses of an instruction's lanes: base register plus immediate. in.*base names the register.
void laneAddresses(const Warp &warp, const Instr &in, uint64_t *to, Ref Instr::*base = &Instr::a);

/// Host pointers for accesses of `bytes` bytes by `lanes`. Checks bounds, alignment (to `align` bytes), and
/// unless `flags` has kNoRecord asks the checker. For writes, data[lane] is what will be stored (null if not
/// known).
void resolve(Warp &warp, const Instr &in, uint32_t lanes, Space space, const uint64_t *addresses,
             uint32_t bytes, uint32_t align, uint32_t flags, uint8_t **to,
             const uint8_t *const *data = nullptr);

/// The same for a range that one lane accesses in any space; used by copies.
uint8_t *resolveRange(Warp &warp, const Instr &in, uint32_t lane, Space space, uint64_t address,
                      uint32_t bytes, uint32_t align, uint32_t flags, const uint8_t *data = nullptr);

inline constexpr uint32_t kNoRecord = 1u << 31;
inline constexpr uint32_t kNoCount = 1u << 30; ///< another lane of the instruction brings the same bytes

} // namespace smelt::emu
