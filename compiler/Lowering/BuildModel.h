// A spec as a module of the smelt dialect.
#pragma once

#include "compiler/Spec/ModelSpec.h"
#include "dialect/IR/SmeltProgramOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace smelt::lowering {

// The tensor-level module of a valid spec: one smelt.model whose weights are those of spec::weightTable, all
// of element type `weights` (f32 or bf16; with i8 those that spec::isQuantized names, and bf16 for the rest),
// and whose segments stay loops. The model carries the spec's text and budgets. CPUs keep keys and values as
// `kv_cache` (f32 or bf16). Loads the dialect into the context.
mlir::OwningOpRef<mlir::ModuleOp> buildModel(mlir::MLIRContext &context, const spec::ModelSpec &spec,
                                             mlir::smelt::DType weights,
                                             mlir::smelt::DType kv_cache = mlir::smelt::DType::f32);

// Symbol of a weight: its role, after "s<segment>." in layers, e.g. "s1.q_proj".
std::string weightSymbol(int64_t segment, const char *role);

} // namespace smelt::lowering
