// smelt-opt: mlir-opt with the smelt dialect and its passes, for tests and for looking into the compiler.
#include "dialect/IR/SmeltDialect.h"
#include "dialect/Transforms/Passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::smelt::SmeltDialect>();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  mlir::registerPrintOpStatsPass();
  mlir::registerStripDebugInfoPass();
  mlir::smelt::registerSmeltPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "smelt optimizer\n", registry));
}
