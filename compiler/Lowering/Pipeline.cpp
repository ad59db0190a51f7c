#include "compiler/Lowering/Pipeline.h"

#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"

#include "mlir/Transforms/Passes.h"

namespace smelt::lowering {

template <std::unique_ptr<mlir::Pass> (*createPass)()> static void addToModel(mlir::OpPassManager &manager) {
  manager.addNestedPass<mlir::smelt::ModelOp>(createPass());
}

static void addCanonicalize(mlir::OpPassManager &manager) {
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
}

static constexpr Phase canonicalize = {"canonicalize", "simplify and merge equal computations",
                                       addCanonicalize};
static constexpr Phase fuse = {"fuse", "group ops into kernels", addToModel<mlir::smelt::createSmeltFuse>};
static constexpr Phase mergeShortStep = {"merge-short-step", "merge kernels for steps of few tokens",
                                         addToModel<mlir::smelt::createSmeltMergeShortStep>};
static constexpr Phase chooseLayouts = {"choose-layouts", "choose how each weight lies in memory",
                                        addToModel<mlir::smelt::createSmeltChooseLayouts>};
static constexpr Phase planMemory = {"plan-memory", "assign buffers by lifetime",
                                     addToModel<mlir::smelt::createSmeltPlanMemory>};
static constexpr Phase toKernels = {"to-kernels", "make kernels and the step program",
                                    addToModel<mlir::smelt::createSmeltToKernels>};
static constexpr Phase addSampling = {"add-sampling", "choose tokens at the end of a step",
                                      addToModel<mlir::smelt::createSmeltAddSampling>};

llvm::ArrayRef<Phase> phases(ProgramKind kind) {
  static const Phase packed[] = {canonicalize, fuse, chooseLayouts, planMemory, toKernels};
  static const Phase merged[] = {canonicalize, fuse, mergeShortStep, planMemory, toKernels, addSampling};
  static const Phase plain[] = {canonicalize, fuse, planMemory, toKernels, addSampling};
  switch (kind) {
  case ProgramKind::cpu:
    return packed;
  case ProgramKind::cuda_short:
    return merged;
  case ProgramKind::cuda_any:
    return plain;
  }
  llvm_unreachable("every kind is above");
}

void buildLoweringPipeline(mlir::OpPassManager &manager, llvm::StringRef last, ProgramKind kind) {
  for (const Phase &phase : phases(kind)) {
    phase.add(manager);
    if (last == phase.name) {
      return;
    }
  }
}

} // namespace smelt::lowering
