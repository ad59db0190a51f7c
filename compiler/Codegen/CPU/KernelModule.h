// One kernel as a module, step by step: MLIR from its template, the LLVM dialect, optimised LLVM IR, object
// code.
#pragma once

#include "compiler/Codegen/CPU/IsaLevel.h"
#include "compiler/Codegen/Common/Kernel.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace smelt::codegen::cpu {

// Dialects and translations a kernel module needs.
void loadKernelDialects(mlir::MLIRContext &context);

// Builds the kernel's function; `scratchBytes` receives what a worker needs. Null, with `error`, when the
// role is unknown.
mlir::OwningOpRef<mlir::ModuleOp> buildKernelModule(mlir::MLIRContext &context, const KernelDesc &kernel,
                                                    const IsaLevel &isa, int64_t &scratchBytes,
                                                    std::string &error);

bool lowerToLLVMDialect(mlir::ModuleOp module, std::string &error);

std::unique_ptr<llvm::TargetMachine> createTargetMachine(const IsaLevel &isa, std::string &error);

// Translates and optimises. The result calls nothing: not even memcpy.
std::unique_ptr<llvm::Module> toOptimizedLLVM(mlir::ModuleOp module, llvm::LLVMContext &context,
                                              llvm::TargetMachine &machine, const IsaLevel &isa,
                                              std::string &error);

bool emitCode(llvm::Module &module, llvm::TargetMachine &machine, bool assembly,
              llvm::SmallVectorImpl<char> &bytes, std::string &error);

} // namespace smelt::codegen::cpu
