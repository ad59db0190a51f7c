#include "compiler/Driver/Compilation.h"

#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Driver/Console.h"
#include "compiler/Driver/Phases.h"
#include "compiler/Driver/SpecInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Driver/Version.h"
#include "compiler/Lowering/BuildModel.h"
#include "compiler/Lowering/Pipeline.h"
#include "compiler/Report/Table.h"
#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"
#include "runtime/tools/smelt-run/StopSignal.h"

#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace smelt::driver {

namespace {

void stopIfInterrupted() {
  if (runtime::StopSignal::requested()) {
    throw UserError(SMELT_interrupted, "interrupted; nothing was written");
  }
}

} // namespace

std::string CompilationOptions::targetText() const {
  std::vector<std::string> names;
  if (cpu) {
    names.push_back("cpu");
  }
  for (const codegen::cuda::Target *device : devices) {
    names.push_back(device->name());
  }
  return fmt::format("{}", fmt::join(names, ","));
}

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
  module = lowering::buildModel(context, spec, options.weights, options.kv_cache);
  if (!module) {
    failPhase(phase_build, "");
  }
}

void Compilation::lower(const std::string &last) {
  if (!options.devices.empty()) {
    device_modules = lowering::copyForCuda(*module);
  }
  if (last == phase_build) {
    return;
  }
  lowerForCpu(last);
  if (!options.devices.empty()) {
    lowerForDevices(last);
  }
}

// The manifest describes the CPU's program whatever the targets are.
void Compilation::lowerForCpu(const std::string &last) {
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

void Compilation::lowerForDevices(const std::string &last) {
  progress.begin(phase_lower_cuda);
  stopIfInterrupted();
  for (lowering::DeviceProgram &program : device_modules) {
    runPasses(phase_lower_cuda, *program.module, [&](mlir::OpPassManager &manager) {
      if (options.unroll_visits) {
        manager.addNestedPass<mlir::smelt::ModelOp>(mlir::smelt::createSmeltUnrollVisits());
      }
      if (last != phase_unroll) {
        lowering::buildLoweringPipeline(manager, last, program.kind);
      }
    });
  }
}

void Compilation::generateCode() {
  if (options.cpu) {
    generateCpuCode();
  }
  if (!options.devices.empty()) {
    generateDeviceCode();
  }
}

// Called in the middle of a phase, perhaps on a worker; there is no file to remove before the write phase, so
// the short way out is safe.
void Compilation::stopWhenInterrupted(size_t done, size_t total) {
  if (runtime::StopSignal::requested()) {
    printError("interrupted; nothing was written");
    std::_Exit(SMELT_interrupted);
  }
  progress.update(fmt::format("kernel {} of {}", done, total));
}

void Compilation::generateDeviceCode() {
  progress.begin(phase_codegen_cuda);
  codegen::cuda::CompileOptions compile_options;
  compile_options.ptx_only = options.ptx_only;
  const std::vector<codegen::cuda::KernelRequest> requests = deviceRequests();
  for (const codegen::cuda::Target *target : options.devices) {
    compile_options.progress = [this](size_t done, size_t total) { stopWhenInterrupted(done, total); };
    std::string error;
    if (!codegen::cuda::compileKernels(requests, *target, compile_options, device_code.emplace_back(),
                                       error)) {
      failPhase(phase_codegen_cuda, error);
    }
  }
}

std::vector<artifact::DeviceProgramInput> Compilation::devicePrograms() const {
  std::vector<artifact::DeviceProgramInput> programs;
  for (const lowering::DeviceProgram &program : device_modules) {
    bool brief = program.kind == lowering::ProgramKind::cuda_short;
    programs.push_back({*program.module, brief ? codegen::cuda::SHORT_STEP_TOKENS : 0});
  }
  return programs;
}

std::vector<codegen::cuda::KernelRequest> Compilation::deviceRequests() const {
  return artifact::deviceRequests(devicePrograms());
}

std::vector<artifact::KernelWork> Compilation::deviceWork() const {
  std::vector<artifact::KernelWork> work;
  for (const artifact::DeviceProgramInput &program : devicePrograms()) {
    std::vector<artifact::KernelWork> some = artifact::kernelWork(program.module);
    work.insert(work.end(), some.begin(), some.end());
  }
  return work;
}

void Compilation::generateCpuCode() {
  progress.begin(phase_codegen);
  codegen::cpu::CompileOptions compile_options;
  compile_options.threads = options.threads;
  compile_options.progress = [this](size_t done, size_t total) { stopWhenInterrupted(done, total); };
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
  const std::vector<artifact::DeviceProgramInput> programs = devicePrograms();
  if (!artifact::serialize({*module, code, producerText(), options.targetText(), device_code, programs},
                           bytes, error)) {
    failPhase(phase_write, error);
  }
  return bytes;
}

std::vector<codegen::KernelDesc> Compilation::kernels() const { return artifact::kernelsOf(*module); }

std::string Compilation::kernelTimes() const {
  report::Table table;
  std::vector<std::string> head = {"kernel, seconds of one thread"};
  for (const codegen::cpu::IsaLevel *level : options.levels) {
    head.push_back(level->name);
  }
  table.addRow(head);
  const std::vector<codegen::KernelDesc> described = kernels();
  for (size_t i = 0; i < code.seconds.size(); ++i) {
    std::vector<std::string> row = {described[i].name};
    for (double seconds : code.seconds[i]) {
      row.push_back(fmt::format("{:.3f}", seconds));
    }
    table.addRow(row);
  }
  return table.text();
}

std::string Compilation::moduleText() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (options.cpu) {
    module->print(stream);
    stream << "\n";
  }
  for (lowering::DeviceProgram &program : device_modules) {
    bool brief = program.kind == lowering::ProgramKind::cuda_short;
    stream << (brief ? "// GPU, steps of few tokens\n" : "// GPU, steps of any length\n");
    program.module->print(stream);
    stream << "\n";
  }
  return text;
}

void Compilation::runPass(const std::string &phase, const std::function<void(mlir::OpPassManager &)> &add) {
  progress.begin(phase);
  stopIfInterrupted();
  runPasses(phase, *module, add);
}

void Compilation::runPasses(const std::string &phase, mlir::ModuleOp on,
                            const std::function<void(mlir::OpPassManager &)> &add) {
  mlir::PassManager manager(&context);
  add(manager);
  if (mlir::failed(manager.run(on))) {
    failPhase(phase, "");
  }
}

void Compilation::failPhase(const std::string &phase, const std::string &reason) const {
  throw std::logic_error(
      fmt::format("phase '{}' failed on '{}': {}\n{}", phase, spec.name, reason, diagnostics));
}

} // namespace smelt::driver
