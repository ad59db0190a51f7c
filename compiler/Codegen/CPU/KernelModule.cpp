#include "compiler/Codegen/CPU/KernelModule.h"

#include "compiler/Codegen/CPU/Kernels.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

using namespace mlir;

namespace smelt::codegen::cpu {

void loadKernelDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                      math::MathDialect, scf::SCFDialect, ub::UBDialect, vector::VectorDialect>();
}

OwningOpRef<ModuleOp> buildKernelModule(MLIRContext &context, const KernelDesc &kernel, const IsaLevel &isa,
                                        int64_t &scratchBytes, std::string &error) {
  KernelEmitter emit = kernelEmitter(kernel.role);
  if (!emit) {
    error = "the cpu target has no kernel of role '" + kernel.role + "'";
    return nullptr;
  }
  if (multipliesWeights(kernel.role) && kernel.layout() != WeightLayout::panel16) {
    error = "kernel '" + kernel.name + "' reads weights in row_major; the cpu target multiplies panel16";
    return nullptr;
  }
  OpBuilder builder(&context);
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  Type pointer = LLVM::LLVMPointerType::get(&context), i32 = builder.getI32Type();
  auto type = builder.getFunctionType({pointer, i32, i32}, {i32});
  auto function = func::FuncOp::create(builder, loc, kernel.name, type);
  builder.setInsertionPointToStart(function.addEntryBlock());
  Emitter e(builder, loc, isa);
  KernelFrame frame(e, function.getArgument(0), function.getArgument(1));
  scratchBytes = emit(e, frame, kernel);
  func::ReturnOp::create(builder, loc, e.c32(0));
  if (failed(verify(*module))) {
    error = "the MLIR of kernel '" + kernel.name + "' does not verify";
    return nullptr;
  }
  return module;
}

bool lowerToLLVMDialect(ModuleOp module, std::string &error) {
  PassManager passes(module.getContext());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  if (failed(passes.run(module))) {
    error = "the kernel does not lower to the LLVM dialect";
    return false;
  }
  return true;
}

std::unique_ptr<llvm::TargetMachine> createTargetMachine(const IsaLevel &isa, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    return nullptr;
  }
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, isa.cpu, isa.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

std::unique_ptr<llvm::Module> toOptimizedLLVM(ModuleOp module, llvm::LLVMContext &context,
                                              llvm::TargetMachine &machine, const IsaLevel &isa,
                                              std::string &error) {
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context, "kernel");
  if (!llvmModule) {
    error = "the kernel does not translate to LLVM IR";
    return nullptr;
  }
  llvmModule->setDataLayout(machine.createDataLayout());
  llvmModule->setTargetTriple(machine.getTargetTriple());
  std::string width = std::to_string(isa.lanes * 32);
  for (llvm::Function &function : *llvmModule) {
    if (function.isDeclaration()) {
      continue;
    }
    function.addFnAttr("target-cpu", isa.cpu);
    function.addFnAttr("target-features", isa.features);
    // x86-64-v4 is tuned for 256 bits by default.
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    // Loops must stay loops: a kernel has no memcpy or memset to call.
    function.addFnAttr("no-builtins");
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.setDSOLocal(true);
  }

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  llvm::PipelineTuningOptions tuning;
  // Kernels are written as vectors already; the vectorisers only cost time and duplicate scalar tails.
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(*llvmModule, modules);
  return llvmModule;
}

bool emitCode(llvm::Module &module, llvm::TargetMachine &machine, bool assembly,
              llvm::SmallVectorImpl<char> &bytes, std::string &error) {
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  auto type = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
    error = "the target cannot emit this kind of file";
    return false;
  }
  passes.run(module);
  return true;
}

} // namespace smelt::codegen::cpu
