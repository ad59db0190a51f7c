#include "tests/support/CompileSpec.h"

#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Codegen/CPU/CompileKernels.h"
#include "compiler/Lowering/BuildModel.h"
#include "compiler/Lowering/Pipeline.h"
#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"
#include "tests/support/Safetensors.h"

#include "mlir/IR/MLIRContext.h"

#include <map>
#include <stdexcept>

namespace smelt::tests {
namespace {

std::string keyOf(const std::vector<codegen::KernelDesc> &kernels) {
  std::string key;
  for (const codegen::KernelDesc &kernel : kernels) {
    key += kernel.name + ' ' + kernel.role;
    for (const auto &[name, value] : kernel.params) {
      key += ' ' + name + '=' + std::to_string(value);
    }
    key += '\n';
  }
  return key;
}

// For every level, whatever this machine can run. Compiled once for models of the same shapes.
const codegen::cpu::CompiledKernels &compile(const std::vector<codegen::KernelDesc> &kernels) {
  static std::map<std::string, codegen::cpu::CompiledKernels> cache;
  const auto [place, added] = cache.try_emplace(keyOf(kernels));
  if (!added) {
    return place->second;
  }
  std::vector<const codegen::cpu::IsaLevel *> levels;
  for (const codegen::cpu::IsaLevel &level : codegen::cpu::isaLevels()) {
    levels.push_back(&level);
  }
  std::string error;
  if (!codegen::cpu::compileKernels(kernels, levels, {}, place->second, error)) {
    cache.erase(place);
    throw std::runtime_error(error);
  }
  return place->second;
}

void lower(mlir::ModuleOp module, bool unroll_visits) {
  mlir::PassManager manager(module.getContext());
  if (unroll_visits) {
    manager.addNestedPass<mlir::smelt::ModelOp>(mlir::smelt::createSmeltUnrollVisits());
  }
  lowering::buildLoweringPipeline(manager);
  if (mlir::failed(manager.run(module))) {
    throw std::runtime_error("the lowering failed");
  }
}

} // namespace

void compileSpec(const spec::ModelSpec &spec, const CompileSettings &settings, const std::string &path) {
  mlir::MLIRContext context;
  const bool wide = settings.precision == Precision::f32;
  const auto module =
      lowering::buildModel(context, spec, wide ? mlir::smelt::DType::f32 : mlir::smelt::DType::bf16);
  lower(*module, settings.unroll_visits);
  const codegen::cpu::CompiledKernels &code = compile(artifact::kernelsOf(*module));
  std::vector<uint8_t> bytes;
  std::string error;
  if (!artifact::serialize({*module, code, "smeltc test", "cpu"}, bytes, error)) {
    throw std::runtime_error(error);
  }
  writeBytes(path, {bytes.begin(), bytes.end()});
}

} // namespace smelt::tests
