#include "dialect/Transforms/Passes.h"

#include "dialect/IR/SmeltOps.h"

#include "mlir/Pass/PassRegistry.h"

namespace mlir::smelt {

#define GEN_PASS_REGISTRATION
#include "dialect/Transforms/Passes.h.inc"

void registerSmeltPasses() { registerSmeltTransformPasses(); }

} // namespace mlir::smelt
