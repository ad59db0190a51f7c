#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"

namespace mlir::smelt {

#define GEN_PASS_DEF_SMELTCHOOSELAYOUTS
#include "dialect/Transforms/Passes.h.inc"

namespace {

class ChooseLayouts : public impl::SmeltChooseLayoutsBase<ChooseLayouts> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    getOperation().walk([&](Operation *op) {
      if (isa<LinearOp, ExpertLinearOp, LmHeadOp>(op)) {
        auto weight = symbols.lookup<WeightOp>(op->getAttrOfType<FlatSymbolRefAttr>("weight").getValue());
        weight.setLayout(WeightLayout::panel16);
      }
    });
  }
};

} // namespace
} // namespace mlir::smelt
