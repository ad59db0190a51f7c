// One layer of a segment as tensor-level ops.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace smelt::lowering {

// Emits one layer of segments[segment] and returns the residual stream after it. `x` is tensor<?xHxf32>.
mlir::Value buildLayer(mlir::ImplicitLocOpBuilder &builder, const spec::ModelSpec &model, size_t segment,
                       mlir::Value x);

} // namespace smelt::lowering
