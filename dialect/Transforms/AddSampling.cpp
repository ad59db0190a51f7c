#include "dialect/IR/KernelSignature.h"
#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"

#include "runtime/include/smelt/artifact.h"

#include "mlir/IR/Builders.h"

namespace mlir::smelt {

#define GEN_PASS_DEF_SMELTADDSAMPLING
#include "dialect/Transforms/Passes.h.inc"

namespace {

class AddSampling : public impl::SmeltAddSamplingBase<AddSampling> {
  void runOnOperation() override {
    ModelOp model = getOperation();
    auto programs = model.getBody().getOps<ProgramOp>();
    BufferOp logits = bufferOf(BufferKind::logits);
    if (programs.empty() || !logits) {
      return;
    }
    ProgramOp program = *programs.begin();
    OpBuilder builder(program);
    FlatSymbolRefAttr draws = addBuffer(builder, "draws", BufferKind::draws, sizeof(smelt_draw));
    FlatSymbolRefAttr sampled = addBuffer(builder, "sampled", BufferKind::sampled, sizeof(int32_t));
    const FlatSymbolRefAttr arguments[] = {symbol(logits), draws, symbol(bufferOf(BufferKind::token_ids)),
                                           symbol(bufferOf(BufferKind::positions)), sampled};
    SmallVector<Attribute> bindings;
    for (FlatSymbolRefAttr argument : arguments) {
      bindings.push_back(BindingAttr::get(&getContext(), BindingKind::buffer, argument));
    }
    auto rows = ConstantAttr::get(&getContext(), ConstantKind::logit_row_count, 0);
    auto params = builder.getDictionaryAttr(
        builder.getNamedAttr("vocab", builder.getI64IntegerAttr(model.getVocabSize())));
    SmallVector<FlatSymbolRefAttr> kernels;
    for (StringRef role : {"argmax", "sample"}) {
      std::string name = kernelName(role, params);
      KernelOp::create(builder, model.getLoc(), builder.getStringAttr(name), builder.getStringAttr(role),
                       params);
      kernels.push_back(FlatSymbolRefAttr::get(&getContext(), name));
    }
    builder.setInsertionPointToEnd(&program.getBody().front());
    auto block = BlockOp::create(builder, model.getLoc());
    builder.setInsertionPointToEnd(&block.getBody().front());
    for (FlatSymbolRefAttr kernel : kernels) {
      CallOp::create(builder, model.getLoc(), kernel, builder.getArrayAttr(bindings),
                     builder.getArrayAttr(rows));
    }
  }

  BufferOp bufferOf(BufferKind kind) {
    for (BufferOp buffer : getOperation().getBody().getOps<BufferOp>()) {
      if (buffer.getKind() == kind) {
        return buffer;
      }
    }
    return nullptr;
  }

  static FlatSymbolRefAttr symbol(BufferOp buffer) {
    return buffer ? FlatSymbolRefAttr::get(buffer.getSymNameAttr()) : FlatSymbolRefAttr();
  }

  FlatSymbolRefAttr addBuffer(OpBuilder &builder, StringRef name, BufferKind kind, int64_t bytesPerRow) {
    auto buffer = BufferOp::create(
        builder, getOperation().getLoc(), builder.getStringAttr(name),
        BufferKindAttr::get(&getContext(), kind), DTypeAttr::get(&getContext(), DType::i32),
        ByteSize{.per_logit_row = bytesPerRow}.toAttr(&getContext()), IntegerAttr(), RopeAttr());
    return symbol(buffer);
  }
};

} // namespace
} // namespace mlir::smelt
