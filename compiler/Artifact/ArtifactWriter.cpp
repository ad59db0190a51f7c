#include "compiler/Artifact/ArtifactWriter.h"

#include "compiler/Artifact/DeviceWriter.h"
#include "dialect/IR/KernelSignature.h"
#include "smelt/artifact.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace smelt::artifact {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
namespace ir = mlir::smelt;

namespace {

// Where every image lies in the code section: variants of the CPU first, then those of the devices.
struct CodePlaces {
  std::vector<ImagePlace> variants, ptx, cubins;
  uint64_t size = 0;

  explicit CodePlaces(const ArtifactInput &input) {
    for (const codegen::cpu::CodeImage &image : input.code.images) {
      variants.push_back(add(image.bytes.size()));
    }
    for (const codegen::cuda::CompiledTarget &target : input.devices) {
      ptx.push_back(add(target.ptx.size() + 1)); // and its end
      cubins.push_back(target.cubin.empty() ? ImagePlace{} : add(target.cubin.size()));
    }
  }

private:
  ImagePlace add(uint64_t bytes) {
    ImagePlace place = {llvm::alignTo(size, SMELT_ARTIFACT_CODE_ALIGNMENT), bytes};
    size = place.offset + bytes;
    return place;
  }
};

// The manifest of one model. Symbols become indices in the order of their operations.
class ManifestWriter {
public:
  ManifestWriter(ir::ModelOp model, const ArtifactInput &input, const CodePlaces &places)
      : model(model), input(input), places(places) {
    // Defaults are written out, so that the bytes do not depend on the schema's defaults.
    builder.ForceDefaults(true);
  }

  std::vector<uint8_t> build(ir::ProgramOp program) {
    auto weights = addWeights();
    ProgramWriter writer(builder, model, weightIndex, input.code.scratch_bytes);
    auto buffers = writer.buffers();
    auto kernels = writer.kernels();
    auto blocks = writer.blocks(program);
    auto variants = addVariants();
    auto devices = addDevices();
    auto budgets = addBudgets();
    auto string = [&](llvm::StringRef text) { return builder.CreateString(text.data(), text.size()); };
    auto producer = string(input.producer), target = string(input.target), name = string(model.getSymName());
    auto spec = string(model.getSpec().value_or(""));
    FinishManifestBuffer(builder, CreateManifest(builder, producer, target, name, spec, model.getVocabSize(),
                                                 weightsType, budgets, weights, buffers, kernels, blocks,
                                                 variants, devices));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
  }

private:
  TableOf<Weight> addWeights() {
    std::vector<Offset<Weight>> table;
    for (ir::WeightOp op : model.getOps<ir::WeightOp>()) {
      weightIndex[op.getSymName()] = table.size();
      auto type = llvm::cast<mlir::RankedTensorType>(op.getType());
      auto dtype = static_cast<DType>(ir::weightDType(op));
      weightsType = weightsType == DType::i8 ? DType::i8 : dtype; // which others keep company
      std::vector<uint64_t> shape(type.getShape().begin(), type.getShape().end());
      auto source = op.getSource();
      table.push_back(CreateWeight(builder, builder.CreateString(source.data(), source.size()), dtype,
                                   builder.CreateVector(shape), op.getFirstLayer(),
                                   op.getEndLayer() - op.getFirstLayer(), op.getExperts(),
                                   static_cast<WeightLayout>(op.getLayout())));
    }
    return builder.CreateVector(table);
  }

  TableOf<CodeVariant> addVariants() {
    std::vector<Offset<CodeVariant>> table;
    for (size_t i = 0; i < input.code.images.size(); ++i) {
      const codegen::cpu::CodeImage &image = input.code.images[i];
      table.push_back(CreateCodeVariant(builder, builder.CreateString(image.isa), image.features,
                                        places.variants[i].offset, places.variants[i].size,
                                        builder.CreateVector(image.entries)));
    }
    return builder.CreateVector(table);
  }

  TableOf<DeviceTarget> addDevices() {
    std::vector<Offset<DeviceTarget>> table;
    DeviceWriter writer(builder, weightIndex, input.device_programs);
    for (size_t i = 0; i < input.devices.size(); ++i) {
      table.push_back(writer.target(input.devices[i], places.ptx[i], places.cubins[i]));
    }
    return builder.CreateVector(table);
  }

  TableOf<Budget> addBudgets() {
    std::vector<Offset<Budget>> table;
    if (auto budgets = model.getBudgets()) {
      for (mlir::NamedAttribute budget : *budgets) {
        auto value = llvm::dyn_cast<mlir::IntegerAttr>(budget.getValue());
        if (!value) {
          continue;
        }
        auto name = budget.getName().strref();
        table.push_back(
            CreateBudget(builder, builder.CreateString(name.data(), name.size()), value.getInt()));
      }
    }
    return builder.CreateVector(table);
  }

  ir::ModelOp model;
  const ArtifactInput &input;
  const CodePlaces &places;
  FlatBufferBuilder builder;
  WeightIndex weightIndex;
  DType weightsType = DType::f32;
};

} // namespace

std::vector<codegen::KernelDesc> kernelsOf(mlir::ModuleOp module) {
  std::vector<codegen::KernelDesc> kernels;
  ir::ModelOp model = modelOf(module);
  if (!model) {
    return kernels;
  }
  for (ir::KernelOp op : model.getOps<ir::KernelOp>()) {
    codegen::KernelDesc kernel{op.getSymName().str(), op.getRole().str(), {}};
    for (mlir::NamedAttribute param : op.getParams()) {
      kernel.params[param.getName().str()] = llvm::cast<mlir::IntegerAttr>(param.getValue()).getInt();
    }
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

std::vector<KernelWork> kernelWork(mlir::ModuleOp module) {
  std::vector<KernelWork> work;
  for (ir::KernelOp op : modelOf(module).getOps<ir::KernelOp>()) {
    ir::KernelSignature signature = ir::kernelSignature(op);
    KernelWork &kernel = work.emplace_back();
    kernel.flops = signature.flops_per_row * signature.rows_per_token + signature.flops_per_token;
    for (const ir::KernelArgument &argument : signature.arguments) {
      bool chosen = argument.kind == ir::BindingKind::weight_table;
      bool row = op.getRole() == "embed" && argument.kind == ir::BindingKind::weight; // of the table, one
      kernel.bytes +=
          argument.size.bytes * (chosen ? signature.rows_per_token : 1) / (row ? op.getParam("vocab") : 1) +
          argument.size.per_token + argument.size.per_logit_row;
    }
  }
  return work;
}

std::vector<codegen::cuda::KernelRequest> deviceRequests(llvm::ArrayRef<DeviceProgramInput> programs) {
  std::vector<codegen::cuda::KernelRequest> requests;
  for (const DeviceProgramInput &program : programs) {
    bool brief = program.max_tokens != 0 && program.max_tokens <= codegen::cuda::SHORT_STEP_TOKENS;
    for (codegen::KernelDesc &kernel : kernelsOf(program.module)) {
      requests.push_back(
          {std::move(kernel), brief ? codegen::cuda::StepLength::brief : codegen::cuda::StepLength::any});
    }
  }
  return requests;
}

bool serialize(const ArtifactInput &input, std::vector<uint8_t> &bytes, std::string &error) {
  ir::ModelOp model = modelOf(input.module);
  if (!model) {
    error = "the module holds no smelt.model";
    return false;
  }
  ir::ProgramOp program = programOf(model);
  if (!program) {
    error = "model '" + model.getSymName().str() + "' has no step program; run smelt-to-kernels first";
    return false;
  }
  CodePlaces places(input);
  std::vector<uint8_t> manifest = ManifestWriter(model, input, places).build(program);

  smelt_artifact_header header = {};
  std::memcpy(header.magic, SMELT_ARTIFACT_MAGIC, sizeof header.magic);
  header.version_major = SMELT_ARTIFACT_VERSION_MAJOR;
  header.version_minor = SMELT_ARTIFACT_VERSION_MINOR;
  header.manifest_offset = sizeof header;
  header.manifest_size = manifest.size();
  header.code_offset = llvm::alignTo(sizeof header + manifest.size(), SMELT_ARTIFACT_CODE_ALIGNMENT);
  bytes.assign(sizeof header, 0);
  bytes.insert(bytes.end(), manifest.begin(), manifest.end());
  bytes.resize(header.code_offset, 0);
  bytes.resize(header.code_offset + places.size, 0);
  auto put = [&](ImagePlace place, const auto &image) {
    std::copy(image.begin(), image.end(), bytes.begin() + header.code_offset + place.offset);
  };
  for (size_t i = 0; i < input.code.images.size(); ++i) {
    put(places.variants[i], input.code.images[i].bytes);
  }
  for (size_t i = 0; i < input.devices.size(); ++i) {
    put(places.ptx[i], input.devices[i].ptx);
    put(places.cubins[i], input.devices[i].cubin);
  }
  header.file_size = bytes.size();
  header.code_size = bytes.size() - header.code_offset;
  std::memcpy(bytes.data(), &header, sizeof header);
  header.checksum =
      XXH3_64bits(bytes.data() + SMELT_ARTIFACT_CHECKSUM_BEGIN, bytes.size() - SMELT_ARTIFACT_CHECKSUM_BEGIN);
  std::memcpy(bytes.data(), &header, sizeof header);
  return true;
}

} // namespace smelt::artifact
