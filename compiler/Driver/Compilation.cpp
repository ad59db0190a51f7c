#include "compiler/Driver/Compilation.h"

#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Driver/Console.h"
#include "compiler/Driver/Phases.h"
#include "compiler/Driver/SpecInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Driver/Version.h"
#include "compiler/Lowering/BuildModel.h"
#include "compiler/Lowering/Pipeline.h"
#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"
#include "runtime/tools/smelt-run/StopSignal.h"

#include <cstdlib>
#include <fmt/format.h>

namespace smelt::driver {

namespace {

void stopIfInterrupted() {
  if (runtime::StopSignal::requested()) {
    throw UserError(SMELT_interrupted, "interrupted; nothing was written");
  }
}

} // namespace

Compilation::Compilation(CompilationOptions options, Progress &progress)
    : options(std::move(options)), progress(progress), context(mlir::MLIRContext::Threading::DISABLED) {
  // The IR of a model is long and the user did not write it.
  context.printOpOnDiagnostic(false);
  context.getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
    diagnostics += diagnostic.str() + "\n";
    for (const mlir::Diagnostic &note : diagnostic.getNotes()) {
      diagnostics += "note: " + note.str() + "\n";
    }
    return mlir::success();
  });
}

void Compilation::readSpec(const std::string &path) {
  progress.begin(phase_read);
  spec = loadSpec(path);
}

void Compilation::buildModel() {
  progress.begin(phase_build);
  module = lowering::buildModel(context, spec, options.weights);
  if (!module) {
    failPhase(phase_build, "");
  }
}

void Compilation::lower(const std::string &last) {
  if (last == phase_build) {
    return;
  }
  if (options.unroll_visits) {
    runPass(phase_unroll, [](mlir::OpPassManager &manager) {
      manager.addNestedPass<mlir::smelt::ModelOp>(mlir::smelt::createSmeltUnrollVisits());
    });
  }
  for (const lowering::Phase &phase : lowering::phases()) {
    if (last == phase_unroll) {
      return;
    }
    runPass(phase.name, phase.add);
    if (last == phase.name) {
      return;
    }
  }
}

void Compilation::generateCode() {
  progress.begin(phase_codegen);
  codegen::cpu::CompileOptions compile_options;
  compile_options.threads = options.threads;
  compile_options.progress = [this](size_t done, size_t total) {
    if (runtime::StopSignal::requested()) {
      // Called on a worker in the middle of a phase; there is no file to remove before the write phase, so
      // the short way out is safe.
      printError("interrupted; nothing was written");
      std::_Exit(SMELT_interrupted);
    }
    progress.update(fmt::format("kernel {} of {}", done, total));
  };
  std::string error;
  if (!codegen::cpu::compileKernels(kernels(), options.levels, compile_options, code, error)) {
    failPhase(phase_codegen, error);
  }
}

std::vector<uint8_t> Compilation::serialize() {
  progress.begin(phase_write);
  stopIfInterrupted();
  std::vector<uint8_t> bytes;
  std::string error;
  if (!artifact::serialize({*module, code, producerText(), "cpu"}, bytes, error)) {
    failPhase(phase_write, error);
  }
  return bytes;
}

std::vector<codegen::KernelDesc> Compilation::kernels() const { return artifact::kernelsOf(*module); }

std::string Compilation::moduleText() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text + "\n";
}

void Compilation::runPass(const std::string &phase, const std::function<void(mlir::OpPassManager &)> &add) {
  progress.begin(phase);
  stopIfInterrupted();
  mlir::PassManager manager(&context);
  add(manager);
  if (mlir::failed(manager.run(*module))) {
    failPhase(phase, "");
  }
}

void Compilation::failPhase(const std::string &phase, const std::string &reason) const {
  throw std::logic_error(
      fmt::format("phase '{}' failed on '{}': {}\n{}", phase, spec.name, reason, diagnostics));
}

} // namespace smelt::driver
