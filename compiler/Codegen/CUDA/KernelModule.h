// The module of one target, step by step: MLIR from the kernel templates, the LLVM dialect, optimised LLVM
// IR, PTX. All of it in process and without a CUDA toolkit.
#pragma once

#include "compiler/Codegen/CUDA/Kernels.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>
#include <vector>

namespace smelt::codegen::cuda {

// Dialects and translations a kernel module needs.
void loadKernelDialects(mlir::MLIRContext &context);

// Adds a kernel's functions to the module and describes its launches. False, with `error`, when the target
// has no such kernel.
bool buildKernel(mlir::ModuleOp module, const KernelRequest &request, const Target &target,
                 CompiledKernel &result, std::string &error);

bool lowerToLLVMDialect(mlir::ModuleOp module, std::string &error);

std::unique_ptr<llvm::TargetMachine> createTargetMachine(const Target &target, std::string &error);

// Translates and optimises.
std::unique_ptr<llvm::Module> toOptimizedLLVM(mlir::ModuleOp module, llvm::LLVMContext &context,
                                              llvm::TargetMachine &machine, std::string &error);

// PTX that a driver can assemble: refuses modules that call what is not in them, such as libdevice.
bool emitPtx(llvm::Module &module, llvm::TargetMachine &machine, std::string &ptx, std::string &error);

} // namespace smelt::codegen::cuda
