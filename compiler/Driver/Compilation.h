// One run of the compiler over one spec, phase by phase.
#pragma once

#include "compiler/Codegen/CPU/CompileKernels.h"
#include "compiler/Codegen/Common/Kernel.h"
#include "compiler/Driver/Progress.h"
#include "compiler/Spec/ModelSpec.h"
#include "dialect/IR/SmeltDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <string>
#include <vector>

namespace smelt::driver {

struct CompilationOptions {
  mlir::smelt::DType weights = mlir::smelt::DType::bf16;
  bool unroll_visits = false;
  std::vector<const codegen::cpu::IsaLevel *> levels; // best first
  unsigned threads = 0;                               // 0: one per processor
};

// Every phase throws when it fails. No phase after reading the spec can fail on a valid one, so that is a bug
// and what is thrown holds the compiler's own diagnostics, never the IR.
class Compilation {
public:
  Compilation(CompilationOptions options, Progress &progress);

  void readSpec(const std::string &path);
  void buildModel();
  // Up to and including the phase named `last`; all of the lowering when it is empty.
  void lower(const std::string &last = "");
  void generateCode();
  // The bytes of the artifact.
  std::vector<uint8_t> serialize();

  std::vector<codegen::KernelDesc> kernels() const;
  // The module as text, in its current form.
  std::string moduleText();

private:
  void runPass(const std::string &phase, const std::function<void(mlir::OpPassManager &)> &add);
  [[noreturn]] void failPhase(const std::string &phase, const std::string &reason) const;

  CompilationOptions options;
  Progress &progress;
  mlir::MLIRContext context;
  std::string diagnostics; // what MLIR reported, one line each
  spec::ModelSpec spec;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  codegen::cpu::CompiledKernels code;
};

} // namespace smelt::driver
