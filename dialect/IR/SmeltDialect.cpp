#include "dialect/IR/SmeltDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::smelt;

#include "dialect/IR/SmeltDialect.cpp.inc"
#include "dialect/IR/SmeltEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/IR/SmeltAttrs.cpp.inc"

void SmeltDialect::initialize() {
  registerAttributes();
  registerOps();
  registerProgramOps();
}

void SmeltDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/IR/SmeltAttrs.cpp.inc"
      >();
}
