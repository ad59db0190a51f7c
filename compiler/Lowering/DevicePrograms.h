// The step programs of a GPU, lowered side by side from one model.
#pragma once

#include "compiler/Lowering/Pipeline.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace smelt::lowering {

struct DeviceProgram {
  ProgramKind kind;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// A copy of a module at the tensor level for each program of a GPU, the one of the shortest steps first;
// their models name the device.
std::vector<DeviceProgram> copyForCuda(mlir::ModuleOp module);

} // namespace smelt::lowering
