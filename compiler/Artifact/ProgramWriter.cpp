#include "compiler/Artifact/ProgramWriter.h"

#include "dialect/IR/KernelSignature.h"

namespace smelt::artifact {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
namespace ir = mlir::smelt;

static Size toSize(const ir::ByteSize &size) {
  return Size(size.bytes, size.per_token, size.per_logit_row, size.per_position, size.per_kv_position);
}

static Offset<flatbuffers::String> addString(FlatBufferBuilder &builder, llvm::StringRef text) {
  return builder.CreateString(text.data(), text.size());
}

TableOf<Buffer> ProgramWriter::buffers() {
  std::vector<Offset<Buffer>> table;
  for (ir::BufferOp op : model.getOps<ir::BufferOp>()) {
    bufferIndex[op.getSymName()] = table.size();
    Size size = toSize(ir::ByteSize::of(op.getSize()));
    auto rope = op.getRope();
    table.push_back(
        CreateBuffer(builder, addString(builder, op.getSymName()), static_cast<BufferKind>(op.getKind()),
                     static_cast<DType>(op.getDtype()), &size, op.getSlots().value_or(1),
                     rope ? rope->getTheta().getValueAsDouble() : 0.0, rope ? rope->getDim() : 0));
  }
  return builder.CreateVector(table);
}

TableOf<Kernel> ProgramWriter::kernels() {
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
    auto name = addString(builder, op.getSymName()), role = addString(builder, op.getRole());
    table.push_back(CreateKernel(builder, name, role, builder.CreateVector(bindings),
                                 signature.constants.size(), scratch.empty() ? 0 : scratch[index],
                                 signature.flops_per_row, signature.rows_per_token,
                                 signature.flops_per_token));
  }
  return builder.CreateVector(table);
}

TableOf<Block> ProgramWriter::blocks(ir::ProgramOp program) {
  std::vector<Offset<Block>> table;
  for (ir::BlockOp op : program.getBody().getOps<ir::BlockOp>()) {
    std::vector<Offset<Call>> calls;
    for (ir::CallOp each : op.getBody().getOps<ir::CallOp>()) {
      calls.push_back(call(each));
    }
    table.push_back(CreateBlock(builder, op.getFirstLayer(), op.getLayers(), op.getVisits(),
                                static_cast<VisitOrder>(op.getOrder()), op.getSlotBase(),
                                builder.CreateVector(calls)));
  }
  return builder.CreateVector(table);
}

Offset<Call> ProgramWriter::call(ir::CallOp op) {
  std::vector<Binding> bindings;
  for (auto binding : op.getBindings().getAsRange<ir::BindingAttr>()) {
    bool isWeight =
        binding.getKind() == ir::BindingKind::weight || binding.getKind() == ir::BindingKind::weight_table;
    auto &index = isWeight ? weights : bufferIndex;
    bindings.emplace_back(static_cast<BindingKind>(binding.getKind()),
                          index.at(binding.getSymbol().getValue()));
  }
  std::vector<Constant> constants;
  for (auto constant : op.getConstants().getAsRange<ir::ConstantAttr>()) {
    constants.emplace_back(static_cast<ConstantKind>(constant.getKind()), constant.getValue());
  }
  return CreateCall(builder, kernelIndex.at(op.getCallee()), builder.CreateVectorOfStructs(bindings),
                    builder.CreateVectorOfStructs(constants));
}

ir::ModelOp modelOf(mlir::ModuleOp module) {
  auto models = module.getOps<ir::ModelOp>();
  return models.empty() ? ir::ModelOp() : *models.begin();
}

ir::ProgramOp programOf(ir::ModelOp model) {
  auto programs = model.getOps<ir::ProgramOp>();
  return programs.empty() ? ir::ProgramOp() : *programs.begin();
}

} // namespace smelt::artifact
