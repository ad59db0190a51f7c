// From a module at the program level and its compiled kernels to the bytes of model.smelt (docs/artifact.md).
#pragma once

#include "compiler/Codegen/CPU/CompileKernels.h"
#include "compiler/Codegen/CUDA/CompileKernels.h"
#include "compiler/Codegen/Common/Kernel.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace smelt::artifact {

// The kernels a program-level module asks for, in the order of their smelt.kernel operations.
std::vector<codegen::KernelDesc> kernelsOf(mlir::ModuleOp module);

// A step program of every device of an artifact.
struct DeviceProgramInput {
  mlir::ModuleOp module; // at the program level
  int64_t max_tokens;    // of a step it can run; 0: any
};

// What to ask of the code generator of GPUs for these programs, in the order serialize() wants its answers.
std::vector<codegen::cuda::KernelRequest> deviceRequests(llvm::ArrayRef<DeviceProgramInput> programs);

// What a kernel does for a step of one token: weights read once (of top_k experts), activations read and
// written, multiplications and additions. What grows with the position, the cache, is left out.
struct KernelWork {
  int64_t bytes = 0, flops = 0;
};
// By kernel, in the order of kernelsOf().
std::vector<KernelWork> kernelWork(mlir::ModuleOp module);

struct ArtifactInput {
  mlir::ModuleOp module; // one smelt.model with a smelt.program
  const codegen::cpu::CompiledKernels
      &code;            // of kernelsOf(module), in that order; without images: no CPU code
  std::string producer; // "smeltc 0.1.0"
  std::string target;   // "cpu", "cpu,cuda:sm_90a"
  // One entry a GPU architecture, each with the kernels of all device programs one after another.
  llvm::ArrayRef<codegen::cuda::CompiledTarget> devices = {};
  llvm::ArrayRef<DeviceProgramInput> device_programs = {}; // shortest steps first
};

// The bytes of the artifact: the same input gives the same bytes. False, with the reason in `error`, when the
// module is not at the program level.
bool serialize(const ArtifactInput &input, std::vector<uint8_t> &bytes, std::string &error);

} // namespace smelt::artifact
