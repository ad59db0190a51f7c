#include "compiler/Lowering/DevicePrograms.h"

#include "dialect/IR/SmeltOps.h"

namespace smelt::lowering {

std::vector<DeviceProgram> copyForCuda(mlir::ModuleOp module) {
  std::vector<DeviceProgram> programs;
  for (ProgramKind kind : {ProgramKind::cuda_short, ProgramKind::cuda_any}) {
    mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
    for (mlir::smelt::ModelOp model : copy->getOps<mlir::smelt::ModelOp>()) {
      model.setDevice("cuda");
    }
    programs.push_back({kind, std::move(copy)});
  }
  return programs;
}

} // namespace smelt::lowering
