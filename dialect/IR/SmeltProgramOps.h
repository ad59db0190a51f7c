// Kernels, buffers and the step program: the last stage of the smelt dialect.
#pragma once

#include "dialect/IR/SmeltDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"

#define GET_OP_CLASSES
#include "dialect/IR/SmeltProgramOps.h.inc"
