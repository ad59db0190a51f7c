// Symbolic execution: every value is a number that stands for how it was computed, so two forms of a model
// that read the right things in the right order end in the same number, and others do not.
#pragma once

#include "tests/compiler/Lowering/LoweredModel.h"

#include <cstdint>

namespace smelt::tests {

// The trace of the logits by the values of the fused forward (after phase "fuse").
uint64_t traceForward(mlir::smelt::ModelOp model);
// The same by the buffers of the step program (after the last phase).
uint64_t traceProgram(mlir::smelt::ModelOp model);

} // namespace smelt::tests
