#include "compiler/Codegen/CPU/CompileKernels.h"

#include "compiler/Codegen/CPU/ImageLinker.h"
#include "compiler/Codegen/CPU/KernelModule.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace smelt::codegen::cpu {

namespace {

constexpr size_t kEntryAlignment = 64;

struct Unit {
  LinkedObject object;
  int64_t scratch = 0;
  double seconds = 0;
  std::string error;
};

void compileUnit(const KernelDesc &kernel, const IsaLevel &level, Unit &unit) {
  auto start = std::chrono::steady_clock::now();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadKernelDialects(context);
  auto module = buildKernelModule(context, kernel, level, unit.scratch, unit.error);
  if (!module || !lowerToLLVMDialect(*module, unit.error)) {
    return;
  }
  auto machine = createTargetMachine(level, unit.error);
  if (!machine) {
    return;
  }
  llvm::LLVMContext llvmContext;
  auto llvmModule = toOptimizedLLVM(*module, llvmContext, *machine, level, unit.error);
  llvm::SmallVector<char, 0> bytes;
  if (llvmModule && emitCode(*llvmModule, *machine, /*assembly=*/false, bytes, unit.error)) {
    linkObject(llvm::StringRef(bytes.data(), bytes.size()), kernel.name, unit.object, unit.error);
  }
  unit.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Appends the units of one level to one image.
CodeImage joinImage(const IsaLevel &level, const Unit *units, size_t count) {
  CodeImage image;
  image.isa = level.name;
  image.features = level.required;
  for (size_t i = 0; i < count; ++i) {
    image.bytes.resize((image.bytes.size() + kEntryAlignment - 1) / kEntryAlignment * kEntryAlignment, 0xcc);
    image.entries.push_back(static_cast<uint32_t>(image.bytes.size() + units[i].object.entry));
    image.bytes.insert(image.bytes.end(), units[i].object.bytes.begin(), units[i].object.bytes.end());
  }
  return image;
}

} // namespace

bool compileKernels(const std::vector<KernelDesc> &kernels, const std::vector<const IsaLevel *> &levels,
                    const CompileOptions &options, CompiledKernels &result, std::string &error) {
  size_t total = kernels.size() * levels.size();
  std::vector<Unit> units(total);
  std::atomic<size_t> next{0};
  size_t done = 0;
  std::mutex progressLock;
  auto work = [&] {
    for (size_t i = next++; i < total; i = next++) {
      compileUnit(kernels[i % kernels.size()], *levels[i / kernels.size()], units[i]);
      std::lock_guard guard(progressLock);
      ++done;
      if (options.progress) {
        options.progress(done, total);
      }
    }
  };
  unsigned threads = options.threads ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < std::min<size_t>(threads, total); ++i) {
    helpers.emplace_back(work);
  }
  work();
  for (std::thread &helper : helpers) {
    helper.join();
  }

  result = {};
  result.scratch_bytes.assign(kernels.size(), 0);
  result.seconds.assign(kernels.size(), std::vector<double>(levels.size()));
  for (size_t i = 0; i < total; ++i) {
    size_t kernel = i % kernels.size();
    if (!units[i].error.empty()) {
      error = "kernel '" + kernels[kernel].name + "' for " + levels[i / kernels.size()]->name + ": " +
              units[i].error;
      return false;
    }
    result.scratch_bytes[kernel] =
        std::max(result.scratch_bytes[kernel], static_cast<uint64_t>(units[i].scratch));
    result.seconds[kernel][i / kernels.size()] = units[i].seconds;
  }
  for (size_t level = 0; level < levels.size(); ++level) {
    result.images.push_back(joinImage(*levels[level], &units[level * kernels.size()], kernels.size()));
  }
  return true;
}

bool printKernel(const KernelDesc &kernel, const IsaLevel &level, TextForm form, std::string &text,
                 std::string &error) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadKernelDialects(context);
  int64_t scratch = 0;
  auto module = buildKernelModule(context, kernel, level, scratch, error);
  llvm::raw_string_ostream stream(text);
  if (!module) {
    return false;
  }
  if (form == TextForm::mlir) {
    module->print(stream);
    return true;
  }
  auto machine = createTargetMachine(level, error);
  llvm::LLVMContext llvmContext;
  if (!machine || !lowerToLLVMDialect(*module, error)) {
    return false;
  }
  auto llvmModule = toOptimizedLLVM(*module, llvmContext, *machine, level, error);
  if (!llvmModule) {
    return false;
  }
  if (form == TextForm::llvm) {
    llvmModule->print(stream, nullptr);
    return true;
  }
  llvm::SmallVector<char, 0> bytes;
  if (!emitCode(*llvmModule, *machine, /*assembly=*/true, bytes, error)) {
    return false;
  }
  stream.write(bytes.data(), bytes.size());
  return true;
}

} // namespace smelt::codegen::cpu
