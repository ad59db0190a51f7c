// Ops of the smelt dialect's tensor level; SmeltOps.td and docs/dialect.md describe them.
#pragma once

#include "dialect/IR/SmeltDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir {
class RewriterBase;
class PatternRewriter;
} // namespace mlir

namespace mlir::smelt {

// Token ids: tensor<?xi32>.
bool isTokens(Type type);
// One row of N numbers a token: tensor<?xNxf32>.
bool isActivation(Type type);
// One row of N numbers for each of a token's k experts: tensor<?xkxNxf32>.
bool isExpertRows(Type type);
// The k experts of each token: tensor<?xkxi32>.
bool isExpertIndices(Type type);
// One or two known dimensions of f32, bf16 or i8.
bool isWeightType(Type type);

// The size of the last dimension.
inline int64_t width(Type type) { return llvm::cast<RankedTensorType>(type).getShape().back(); }
inline int64_t width(Value value) { return width(value.getType()); }

// tensor<?xNxf32>.
RankedTensorType activationType(MLIRContext *context, int64_t width);
// tensor<?xkxNxf32>.
RankedTensorType expertRowsType(MLIRContext *context, int64_t rows, int64_t width);
// tensor<?xkxi32>.
RankedTensorType expertIndicesType(MLIRContext *context, int64_t rows);
// tensor<?xi32>.
RankedTensorType tokensType(MLIRContext *context);

// How keys and values lie in their state slots, for S sequences of capacity C; parameter `kv` of the roles
// that touch them.
enum class KvLayout {
  blocked_f32 = 0,  // K f32 [S][kv_heads][C/16][head_dim][16], V f32 [S][kv_heads][C][head_dim]
  rows_bf16 = 1,    // both bf16 [S][kv_heads][C][head_dim rounded up to 8], the padding zero
  blocked_bf16 = 2, // K bf16 [S][kv_heads][C/16][head_dim/2][16][2], V bf16 [S][kv_heads][C][head_dim]
};

} // namespace mlir::smelt

#define GET_OP_CLASSES
#include "dialect/IR/SmeltOps.h.inc"
