// Where everything of a session lies: the size formulas of the manifest evaluated for a session's options.
#pragma once

#include "runtime/src/Artifact.h"
#include "smelt/runtime.h"

#include <optional>
#include <vector>

namespace smelt::artifact {
struct Size;
} // namespace smelt::artifact

namespace smelt::runtime {

// The variables of a Size formula.
struct Extent {
  uint64_t tokens = 0, logitRows = 0, sequences = 0, capacity = 0;
  bool operator==(const Extent &) const = default;
};

// nullopt on overflow.
std::optional<uint64_t> evaluate(const artifact::Size &size, const Extent &extent);

struct MemoryPlan {
  Extent extent;                 // of the largest step
  std::vector<uint64_t> offsets; // by buffer: into the state memory for state, the arena for others
  std::vector<uint64_t> strides; // by buffer: bytes of one slot, a multiple of 64
  uint64_t arenaBytes = 0;       // workspace, inputs, logits and rope tables
  uint64_t stateBytes = 0;
  uint64_t scratchStride = 0; // bytes of one worker, a multiple of 64
  smelt_memory memory = {};   // the same, as reported to users
};

// What multiplies dense matrices in long steps on a device: smelt_session_options.gemm.
enum class GemmChoice { automatic, own, cublas };
std::optional<GemmChoice> parseGemm(const char *name); // null: automatic

// Fills defaults of `options`, rounds the capacity up, and checks ranges: SMELT_input.
Status resolveOptions(smelt_session_options &options);
// `options` resolved. SMELT_memory when the sizes overflow.
Result<MemoryPlan> planMemory(const Artifact &artifact, const smelt_session_options &options);
// SMELT_memory, with all numbers, when the plan needs more than `available` bytes.
Status checkFits(const MemoryPlan &plan, const smelt_session_options &options, uint64_t available);

} // namespace smelt::runtime
