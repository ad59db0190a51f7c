#include "compiler/Lowering/Pipeline.h"

#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"

#include "mlir/Transforms/Passes.h"

namespace smelt::lowering {

template <auto createPass> static void addToModel(mlir::OpPassManager &manager) {
  manager.addNestedPass<mlir::smelt::ModelOp>(createPass());
}

static void addCanonicalize(mlir::OpPassManager &manager) {
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
}

llvm::ArrayRef<Phase> phases() {
  static const Phase table[] = {
      {"canonicalize", "simplify and merge equal computations", addCanonicalize},
      {"fuse", "group ops into kernels",
       addToModel<static_cast<std::unique_ptr<mlir::Pass> (*)()>(mlir::smelt::createSmeltFuse)>},
      {"plan-memory", "assign buffers by lifetime",
       addToModel<static_cast<std::unique_ptr<mlir::Pass> (*)()>(mlir::smelt::createSmeltPlanMemory)>},
      {"to-kernels", "make kernels and the step program",
       addToModel<static_cast<std::unique_ptr<mlir::Pass> (*)()>(mlir::smelt::createSmeltToKernels)>},
  };
  return table;
}

void buildLoweringPipeline(mlir::OpPassManager &manager, llvm::StringRef last) {
  for (const Phase &phase : phases()) {
    phase.add(manager);
    if (last == phase.name) {
      return;
    }
  }
}

} // namespace smelt::lowering
