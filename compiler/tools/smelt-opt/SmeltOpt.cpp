// smelt-opt: mlir-opt with the smelt dialect and its passes, for tests and for looking into the compiler.
#include "dialect/IR/SmeltDialect.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

#ifdef SMELT_HAS_TRANSFORMS
namespace mlir::smelt {
void registerSmeltPasses();
} // namespace mlir::smelt
#endif

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::smelt::SmeltDialect>();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  mlir::registerPrintOpStatsPass();
  mlir::registerStripDebugInfoPass();
#ifdef SMELT_HAS_TRANSFORMS
  mlir::smelt::registerSmeltPasses();
#endif
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "smelt optimizer\n", registry));
}
