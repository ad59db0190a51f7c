// The smelt dialect and its enums. Ops are in SmeltOps.h (tensor level) and SmeltProgramOps.h (program
// level).
#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"

#include "dialect/IR/SmeltDialect.h.inc"
#include "dialect/IR/SmeltEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/IR/SmeltAttrs.h.inc"
