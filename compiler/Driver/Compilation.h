// One run of the compiler over one spec, phase by phase.
#pragma once

#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Codegen/CPU/CompileKernels.h"
#include "compiler/Codegen/CUDA/CompileKernels.h"
#include "compiler/Codegen/Common/Kernel.h"
#include "compiler/Driver/Progress.h"
#include "compiler/Lowering/DevicePrograms.h"
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
  mlir::smelt::DType kv_cache = mlir::smelt::DType::f32; // of CPUs; GPUs keep bf16
  bool unroll_visits = false;
  bool cpu = true;                                    // code for CPUs, of these levels
  std::vector<const codegen::cpu::IsaLevel *> levels; // best first
  std::vector<const codegen::cuda::Target *> devices; // code for GPUs, of these architectures
  bool ptx_only = false;                              // no cubins, toolkit or not
  unsigned threads = 0;                               // 0: one per processor

  std::string targetText() const; // "cpu,cuda:sm_90a"
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
  // For the targets of the options.
  void generateCode();
  void generateDeviceCode(); // for the GPU targets alone
  // The bytes of the artifact.
  std::vector<uint8_t> serialize();

  std::vector<codegen::KernelDesc> kernels() const;
  // What each kernel took for each level of the options, once generateCode() is done; for --timing.
  std::string kernelTimes() const;
  // Of every step program for GPUs, in the order of deviceCode().
  std::vector<codegen::cuda::KernelRequest> deviceRequests() const;
  std::vector<artifact::KernelWork> deviceWork() const; // by request
  const std::vector<codegen::cuda::CompiledTarget> &deviceCode() const { return device_code; }
  // The modules as text, in their current form: that of CPUs, if they are a target, then those of GPUs.
  std::string moduleText();

private:
  void lowerForCpu(const std::string &last);
  void lowerForDevices(const std::string &last);
  void generateCpuCode();
  std::vector<artifact::DeviceProgramInput> devicePrograms() const;
  void stopWhenInterrupted(size_t done, size_t total);
  void runPass(const std::string &phase, const std::function<void(mlir::OpPassManager &)> &add);
  void runPasses(const std::string &phase, mlir::ModuleOp on,
                 const std::function<void(mlir::OpPassManager &)> &add);
  [[noreturn]] void failPhase(const std::string &phase, const std::string &reason) const;

  CompilationOptions options;
  Progress &progress;
  mlir::MLIRContext context;
  std::string diagnostics; // what MLIR reported, one line each
  spec::ModelSpec spec;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<lowering::DeviceProgram> device_modules;
  codegen::cpu::CompiledKernels code;
  std::vector<codegen::cuda::CompiledTarget> device_code;
};

} // namespace smelt::driver
