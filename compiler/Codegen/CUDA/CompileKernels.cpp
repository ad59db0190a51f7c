#include "compiler/Codegen/CUDA/CompileKernels.h"

#include "compiler/Codegen/CUDA/KernelModule.h"
#include "compiler/Codegen/CUDA/Ptxas.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>

namespace smelt::codegen::cuda {

namespace {

// One module with the functions of all requests, and what it takes to go on with it.
struct Unit {
  Unit() : context(mlir::MLIRContext::Threading::DISABLED) {
    loadKernelDialects(context);
    module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  }
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

std::string describe(const KernelRequest &request, const Target &target) {
  return "kernel '" + request.kernel.name + "' for " + target.name() + ": ";
}

// Lowers the module, in place, to PTX; `llvmText` takes the optimised LLVM IR if asked for.
bool lowerToPtx(mlir::ModuleOp module, const Target &target, std::string &ptx, std::string *llvmText,
                std::string &error) {
  auto machine = createTargetMachine(target, error);
  llvm::LLVMContext context;
  if (!machine || !lowerToLLVMDialect(module, error)) {
    return false;
  }
  auto llvmModule = toOptimizedLLVM(module, context, *machine, error);
  if (!llvmModule) {
    return false;
  }
  if (llvmText) {
    llvm::raw_string_ostream stream(*llvmText);
    llvmModule->print(stream, nullptr);
  }
  return emitPtx(*llvmModule, *machine, ptx, error);
}

// Statistics in the order of the module's functions, with what a launch adds.
std::vector<FunctionStats> orderStats(const std::vector<CompiledKernel> &kernels,
                                      const std::vector<FunctionStats> &found) {
  std::vector<FunctionStats> stats;
  for (const CompiledKernel &kernel : kernels) {
    std::vector<Stage> stages = kernel.stages;
    for (const LibraryStage &stage : kernel.library) {
      if (const Stage *launch = std::get_if<Stage>(&stage)) {
        stages.push_back(*launch);
      }
    }
    for (const Stage &stage : stages) {
      auto same = [&](const FunctionStats &s) { return s.function == stage.function; };
      if (std::any_of(stats.begin(), stats.end(), same)) {
        continue;
      }
      auto it = std::find_if(found.begin(), found.end(), same);
      stats.push_back(it == found.end() ? FunctionStats{stage.function} : *it);
      stats.back().dynamic_shared_bytes = stage.shared_bytes;
    }
  }
  return stats;
}

} // namespace

bool compileKernels(const std::vector<KernelRequest> &requests, const Target &target,
                    const CompileOptions &options, CompiledTarget &result, std::string &error) {
  result = {};
  result.target = target;
  size_t total = requests.size() + 2, done = 0; // building, then LLVM, then ptxas
  auto step = [&] {
    ++done;
    if (options.progress) {
      options.progress(done, total);
    }
  };
  Unit unit;
  std::map<std::pair<std::string, StepLength>, size_t> built;
  for (const KernelRequest &request : requests) {
    auto [it, isNew] = built.try_emplace({request.kernel.name, request.length}, result.kernels.size());
    CompiledKernel kernel;
    if (!isNew) {
      kernel = result.kernels[it->second];
    } else if (!buildKernel(*unit.module, request, target, kernel, error)) {
      error = describe(request, target) + error;
      return false;
    }
    result.kernels.push_back(std::move(kernel));
    step();
  }
  if (!lowerToPtx(*unit.module, target, result.ptx, nullptr, error)) {
    error = target.name() + ": " + error;
    return false;
  }
  step();
  std::vector<FunctionStats> found;
  std::string ptxas = options.ptx_only ? std::string() : findPtxas();
  if (!ptxas.empty()) {
    PtxasResult assembled = assemble(ptxas, result.ptx, target);
    if (assembled.outcome == PtxasOutcome::failed) {
      error = target.name() + ": " + ptxas + " refuses the kernels: " + assembled.message;
      return false;
    }
    result.cubin = std::move(assembled.cubin);
    result.warnings = std::move(assembled.warnings);
    found = std::move(assembled.stats);
    if (assembled.outcome == PtxasOutcome::unsupported) {
      result.warnings.push_back(ptxas + " is too old for " + target.chip +
                                ", the driver will assemble the PTX: " + assembled.message);
    }
  }
  result.stats = orderStats(result.kernels, found);
  step();
  return true;
}

bool printKernel(const KernelRequest &request, const Target &target, TextForm form, std::string &text,
                 std::string &error) {
  Unit unit;
  CompiledKernel kernel;
  if (!buildKernel(*unit.module, request, target, kernel, error)) {
    error = describe(request, target) + error;
    return false;
  }
  if (form == TextForm::mlir) {
    llvm::raw_string_ostream stream(text);
    unit.module->print(stream);
    return true;
  }
  std::string ptx, llvmText;
  if (!lowerToPtx(*unit.module, target, ptx, &llvmText, error)) {
    error = describe(request, target) + error;
    return false;
  }
  text += form == TextForm::llvm ? llvmText : ptx;
  return true;
}

} // namespace smelt::codegen::cuda
