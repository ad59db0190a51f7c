#include "tests/support/CompileSpec.h"

#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Codegen/CPU/CompileKernels.h"
#include "compiler/Codegen/CUDA/CompileKernels.h"
#include "compiler/Lowering/BuildModel.h"
#include "compiler/Lowering/DevicePrograms.h"
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

// For every level that the weights gain from, whatever this machine can run. Compiled once for models of the
// same shapes.
const codegen::cpu::CompiledKernels &compile(const std::vector<codegen::KernelDesc> &kernels,
                                             codegen::WeightType weights) {
  static std::map<std::string, codegen::cpu::CompiledKernels> cache;
  const auto [place, added] = cache.try_emplace(keyOf(kernels));
  if (!added) {
    return place->second;
  }
  std::vector<const codegen::cpu::IsaLevel *> levels;
  for (const codegen::cpu::IsaLevel &level : codegen::cpu::isaLevels()) {
    if (level.gains(weights)) {
      levels.push_back(&level);
    }
  }
  std::string error;
  if (!codegen::cpu::compileKernels(kernels, levels, {}, place->second, error)) {
    cache.erase(place);
    throw std::runtime_error(error);
  }
  return place->second;
}

void lower(mlir::ModuleOp module, bool unroll_visits,
           lowering::ProgramKind kind = lowering::ProgramKind::cpu) {
  mlir::PassManager manager(module.getContext());
  if (unroll_visits) {
    manager.addNestedPass<mlir::smelt::ModelOp>(mlir::smelt::createSmeltUnrollVisits());
  }
  lowering::buildLoweringPipeline(manager, "", kind);
  if (mlir::failed(manager.run(module))) {
    throw std::runtime_error("the lowering failed");
  }
}

codegen::cuda::CompiledTarget compileFor(const std::string &device,
                                         const std::vector<codegen::cuda::KernelRequest> &requests) {
  const codegen::cuda::Target *target = codegen::cuda::findTarget(device);
  codegen::cuda::CompiledTarget code;
  codegen::cuda::CompileOptions options;
  options.ptx_only = true;
  std::string error = "no target of that name";
  if (!target || !codegen::cuda::compileKernels(requests, *target, options, code, error)) {
    throw std::runtime_error(device + ": " + error);
  }
  return code;
}

codegen::WeightType weightsOf(Precision precision) {
  return precision == Precision::f32    ? codegen::WeightType::f32
         : precision == Precision::bf16 ? codegen::WeightType::bf16
                                        : codegen::WeightType::i8;
}

} // namespace

mlir::smelt::DType dtypeOf(Precision precision) {
  using mlir::smelt::DType;
  return precision == Precision::f32 ? DType::f32 : precision == Precision::bf16 ? DType::bf16 : DType::i8;
}

void compileSpec(const spec::ModelSpec &spec, const CompileSettings &settings, const std::string &path) {
  mlir::MLIRContext context;
  const auto module =
      lowering::buildModel(context, spec, dtypeOf(settings.precision), dtypeOf(settings.kv_cache));
  std::vector<lowering::DeviceProgram> copies;
  if (!settings.devices.empty()) {
    copies = lowering::copyForCuda(*module);
  }
  lower(*module, settings.unroll_visits);
  std::vector<artifact::DeviceProgramInput> programs;
  for (const lowering::DeviceProgram &copy : copies) {
    lower(*copy.module, settings.unroll_visits, copy.kind);
    const bool brief = copy.kind == lowering::ProgramKind::cuda_short;
    programs.push_back({*copy.module, brief ? codegen::cuda::SHORT_STEP_TOKENS : 0});
  }
  std::vector<codegen::cuda::CompiledTarget> devices;
  for (const std::string &device : settings.devices) {
    devices.push_back(compileFor(device, artifact::deviceRequests(programs)));
  }
  const codegen::cpu::CompiledKernels &code =
      compile(artifact::kernelsOf(*module), weightsOf(settings.precision));
  std::vector<uint8_t> bytes;
  std::string error;
  if (!artifact::serialize({*module, code, "smeltc test", "cpu", devices, programs}, bytes, error)) {
    throw std::runtime_error(error);
  }
  writeBytes(path, {bytes.begin(), bytes.end()});
}

} // namespace smelt::tests
