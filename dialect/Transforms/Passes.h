// The target-independent passes of the smelt dialect; Passes.td describes each.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir::smelt {

class ModelOp;

#define GEN_PASS_DECL
#include "dialect/Transforms/Passes.h.inc"

// Makes the passes known by name, for smelt-opt and textual pipelines.
void registerSmeltPasses();

} // namespace mlir::smelt
