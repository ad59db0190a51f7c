#include "compiler/Artifact/ArtifactWriter.h"

#include "dialect/IR/KernelSignature.h"
#include "dialect/IR/SmeltOps.h"
#include "dialect/IR/SmeltProgramOps.h"
#include "runtime/schema/manifest_generated.h"
#include "smelt/artifact.h"

#include "llvm/ADT/StringMap.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace smelt::artifact {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
namespace ir = mlir::smelt;

namespace {

Size toSize(const ir::ByteSize &size) {
  return Size(size.bytes, size.per_token, size.per_logit_row, size.per_position, size.per_kv_position);
}

// The manifest of one model. Symbols become indices in the order of their operations.
class ManifestWriter {
public:
  ManifestWriter(ir::ModelOp model, const ArtifactInput &input) : model(model), input(input) {
    // Defaults are written out, so that the bytes do not depend on the schema's defaults.
    builder.ForceDefaults(true);
  }

  std::vector<uint8_t> build(ir::ProgramOp program) {
    auto weights = addWeights();
    auto buffers = addBuffers();
    auto kernels = addKernels();
    auto blocks = addBlocks(program);
    auto variants = addVariants();
    auto budgets = addBudgets();
    auto string = [&](llvm::StringRef text) { return builder.CreateString(text.data(), text.size()); };
    auto producer = string(input.producer), target = string(input.target), name = string(model.getSymName());
    auto spec = string(model.getSpec().value_or(""));
    FinishManifestBuffer(builder,
                         CreateManifest(builder, producer, target, name, spec, model.getVocabSize(),
                                        weightsType, budgets, weights, buffers, kernels, blocks, variants));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
  }

private:
  template <typename T> using Table = Offset<flatbuffers::Vector<Offset<T>>>;

  Table<Weight> addWeights() {
    std::vector<Offset<Weight>> table;
    for (ir::WeightOp op : model.getOps<ir::WeightOp>()) {
      weightIndex[op.getSymName()] = table.size();
      auto type = llvm::cast<mlir::RankedTensorType>(op.getType());
      DType dtype = type.getElementType().isBF16() ? DType::bf16 : DType::f32;
      weightsType = dtype;
      std::vector<uint64_t> shape(type.getShape().begin(), type.getShape().end());
      auto source = op.getSource();
      table.push_back(CreateWeight(builder, builder.CreateString(source.data(), source.size()), dtype,
                                   builder.CreateVector(shape), op.getFirstLayer(),
                                   op.getEndLayer() - op.getFirstLayer(), op.getExperts(),
                                   WeightLayout::row_major));
    }
    return builder.CreateVector(table);
  }

  Table<Buffer> addBuffers() {
    std::vector<Offset<Buffer>> table;
    for (ir::BufferOp op : model.getOps<ir::BufferOp>()) {
      bufferIndex[op.getSymName()] = table.size();
      Size size = toSize(ir::ByteSize::of(op.getSize()));
      auto rope = op.getRope();
      auto name = op.getSymName();
      table.push_back(CreateBuffer(
          builder, builder.CreateString(name.data(), name.size()), static_cast<BufferKind>(op.getKind()),
          static_cast<DType>(op.getDtype()), &size, op.getSlots().value_or(1),
          rope ? rope->getTheta().getValueAsDouble() : 0.0, rope ? rope->getDim() : 0));
    }
    return builder.CreateVector(table);
  }

  Table<Kernel> addKernels() {
    std::vector<Offset<Kernel>> table;
    for (ir::KernelOp op : model.getOps<ir::KernelOp>()) {
      size_t index = table.size();
      kernelIndex[op.getSymName()] = index;
      ir::KernelSignature signature = ir::kernelSignature(op);
      std::vector<Offset<KernelBinding>> bindings;
      for (const ir::KernelArgument &argument : signature.arguments) {
        Size size = toSize(argument.size);
        bindings.push_back(CreateKernelBinding(builder, static_cast<Access>(argument.access), &size));
      }
      auto string = [&](llvm::StringRef text) { return builder.CreateString(text.data(), text.size()); };
      auto name = string(op.getSymName()), role = string(op.getRole());
      table.push_back(CreateKernel(builder, name, role, builder.CreateVector(bindings),
                                   signature.constants.size(), input.code.scratch_bytes[index],
                                   signature.flops_per_row, signature.rows_per_token));
    }
    return builder.CreateVector(table);
  }

  Table<Block> addBlocks(ir::ProgramOp program) {
    std::vector<Offset<Block>> table;
    for (ir::BlockOp op : program.getBody().getOps<ir::BlockOp>()) {
      std::vector<Offset<Call>> calls;
      for (ir::CallOp call : op.getBody().getOps<ir::CallOp>()) {
        calls.push_back(addCall(call));
      }
      table.push_back(CreateBlock(builder, op.getFirstLayer(), op.getLayers(), op.getVisits(),
                                  static_cast<VisitOrder>(op.getOrder()), op.getSlotBase(),
                                  builder.CreateVector(calls)));
    }
    return builder.CreateVector(table);
  }

  Offset<Call> addCall(ir::CallOp call) {
    std::vector<Binding> bindings;
    for (auto binding : call.getBindings().getAsRange<ir::BindingAttr>()) {
      bool isWeight =
          binding.getKind() == ir::BindingKind::weight || binding.getKind() == ir::BindingKind::weight_table;
      auto &index = isWeight ? weightIndex : bufferIndex;
      bindings.emplace_back(static_cast<BindingKind>(binding.getKind()),
                            index.at(binding.getSymbol().getValue()));
    }
    std::vector<Constant> constants;
    for (auto constant : call.getConstants().getAsRange<ir::ConstantAttr>()) {
      constants.emplace_back(static_cast<ConstantKind>(constant.getKind()), constant.getValue());
    }
    return CreateCall(builder, kernelIndex.at(call.getCallee()), builder.CreateVectorOfStructs(bindings),
                      builder.CreateVectorOfStructs(constants));
  }

  Table<CodeVariant> addVariants() {
    std::vector<Offset<CodeVariant>> table;
    uint64_t offset = 0;
    for (const codegen::cpu::CodeImage &image : input.code.images) {
      table.push_back(CreateCodeVariant(builder, builder.CreateString(image.isa), image.features, offset,
                                        image.bytes.size(), builder.CreateVector(image.entries)));
      offset += llvm::alignTo(image.bytes.size(), SMELT_ARTIFACT_CODE_ALIGNMENT);
    }
    return builder.CreateVector(table);
  }

  Table<Budget> addBudgets() {
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
  FlatBufferBuilder builder;
  llvm::StringMap<uint32_t> weightIndex, bufferIndex, kernelIndex;
  DType weightsType = DType::f32;
};

ir::ModelOp findModel(mlir::ModuleOp module) {
  auto models = module.getOps<ir::ModelOp>();
  return models.empty() ? ir::ModelOp() : *models.begin();
}

} // namespace

std::vector<codegen::KernelDesc> kernelsOf(mlir::ModuleOp module) {
  std::vector<codegen::KernelDesc> kernels;
  ir::ModelOp model = findModel(module);
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

bool serialize(const ArtifactInput &input, std::vector<uint8_t> &bytes, std::string &error) {
  ir::ModelOp model = findModel(input.module);
  if (!model) {
    error = "the module holds no smelt.model";
    return false;
  }
  auto programs = model.getOps<ir::ProgramOp>();
  if (programs.empty()) {
    error = "model '" + model.getSymName().str() + "' has no step program; run smelt-to-kernels first";
    return false;
  }
  std::vector<uint8_t> manifest = ManifestWriter(model, input).build(*programs.begin());

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
  for (const codegen::cpu::CodeImage &image : input.code.images) {
    bytes.resize(llvm::alignTo(bytes.size(), SMELT_ARTIFACT_CODE_ALIGNMENT), 0);
    bytes.insert(bytes.end(), image.bytes.begin(), image.bytes.end());
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
