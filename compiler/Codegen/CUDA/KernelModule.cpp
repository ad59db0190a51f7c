#include "compiler/Codegen/CUDA/KernelModule.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

using namespace mlir;

namespace smelt::codegen::cuda {

void loadKernelDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect, NVVM::NVVMDialect,
                      scf::SCFDialect, ub::UBDialect>();
}

bool buildKernel(ModuleOp module, const KernelRequest &request, const Target &target, CompiledKernel &result,
                 std::string &error) {
  KernelEmitter emit = kernelEmitter(request.kernel.role, request.length);
  if (!emit) {
    error = "there is no kernel of role '" + request.kernel.role + "' for " +
            (request.length == StepLength::brief ? "short steps" : "steps of any length");
    return false;
  }
  // rope_append has weights with qk-norm alone.
  auto qkNorm = request.kernel.params.find("qk_norm");
  bool weightless =
      request.kernel.role == "rope_append" && qkNorm != request.kernel.params.end() && !qkNorm->second;
  if (!weightless && request.kernel.params.count("dtype") &&
      request.kernel.weightType() != WeightType::bf16) {
    error = "weights must be bf16";
    return false;
  }
  KernelBuilder builder(module, request, target);
  emit(builder);
  error = builder.error();
  if (error.empty() && failed(verify(module))) {
    error = "its MLIR does not verify";
  }
  result = std::move(builder.result);
  return error.empty();
}

bool lowerToLLVMDialect(ModuleOp module, std::string &error) {
  PassManager passes(module.getContext());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertNVVMToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  if (failed(passes.run(module))) {
    error = "the kernels do not lower to the LLVM dialect";
    return false;
  }
  return true;
}

std::unique_ptr<llvm::TargetMachine> createTargetMachine(const Target &target, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *machine = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!machine) {
    return nullptr;
  }
  return std::unique_ptr<llvm::TargetMachine>(machine->createTargetMachine(
      triple, target.chip, "+ptx" + std::to_string(target.ptx_version), llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

namespace {

// LLVM 22 does not declare mma and wmma intrinsics convergent, nor does MLIR mark the inline PTX it makes, so
// that SimplifyCFG may copy one instruction of a whole warp into both arms of a branch.
void markConvergent(llvm::Module &module) {
  for (llvm::Function &function : module) {
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (!call) {
        continue;
      }
      llvm::Function *callee = call->getCalledFunction();
      llvm::StringRef name = callee ? callee->getName() : "";
      if (call->isInlineAsm() || name.starts_with("llvm.nvvm.mma.") || name.starts_with("llvm.nvvm.wmma.")) {
        call->addFnAttr(llvm::Attribute::Convergent);
      }
    }
  }
}

} // namespace

std::unique_ptr<llvm::Module> toOptimizedLLVM(ModuleOp module, llvm::LLVMContext &context,
                                              llvm::TargetMachine &machine, std::string &error) {
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context, "kernels");
  if (!llvmModule) {
    error = "the kernels do not translate to LLVM IR";
    return nullptr;
  }
  llvmModule->setDataLayout(machine.createDataLayout());
  llvmModule->setTargetTriple(machine.getTargetTriple());
  for (llvm::Function &function : *llvmModule) {
    if (!function.isDeclaration()) {
      function.addFnAttr("no-builtins"); // loops must stay loops
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
  }
  markConvergent(*llvmModule);

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  llvm::PipelineTuningOptions tuning;
  // The templates unroll and vectorise themselves; more of either only costs registers.
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(*llvmModule, modules);
  return llvmModule;
}

bool emitPtx(llvm::Module &module, llvm::TargetMachine &machine, std::string &ptx, std::string &error) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    error = "LLVM cannot print PTX for " + machine.getTargetCPU().str();
    return false;
  }
  passes.run(module);
  ptx.assign(bytes.data(), bytes.size());
  constexpr llvm::StringRef external = ".extern .func";
  if (size_t at = ptx.find(external); at != std::string::npos) {
    llvm::StringRef line = llvm::StringRef(ptx).substr(at).split(';').first;
    error = "the PTX calls a function that is not in it: " + line.str();
    return false;
  }
  return true;
}

} // namespace smelt::codegen::cuda
