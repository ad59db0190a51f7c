#include "compiler/Codegen/CUDA/Kernels.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#include <algorithm>

using namespace mlir;

namespace smelt::codegen::cuda {

namespace {

constexpr const char *SHARED_SYMBOL = "smelt_shared";

// All shared memory is dynamic, under one symbol. External linkage is what makes NVPTX print it as
// `.extern .shared` instead of giving it a byte of static shared memory.
void declareShared(ModuleOp module, OpBuilder &builder) {
  if (module.lookupSymbol(SHARED_SYMBOL)) {
    return;
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(module.getBody());
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), 0);
  LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/false, LLVM::Linkage::External,
                         SHARED_SYMBOL, Attribute(), SHARED_ALIGNMENT, SHARED_SPACE);
}

std::string stageName(const KernelRequest &request, size_t stage) {
  return request.kernel.name + "_" + std::to_string(stage) +
         (request.length == StepLength::brief ? "_short" : "");
}

} // namespace

Value StageFrame::binding(unsigned index) {
  assert(index < bindings);
  return entry.getArgument(index);
}
Value StageFrame::constantInt(unsigned index) {
  assert(index < constants);
  return entry.getArgument(bindings + index);
}
Value StageFrame::constantFloat(unsigned index) { return e.fromBits(constantInt(index)); }
Value StageFrame::scratch() { return entry.getArgument(bindings + constants); }
Value StageFrame::ticket(Value index) {
  return e.at(entry.getArgument(bindings + constants + 1), e.i32(), index);
}
Value StageFrame::shared(int64_t bytes, int64_t alignment) {
  assert(alignment <= SHARED_ALIGNMENT);
  int64_t offset = (used + alignment - 1) / alignment * alignment;
  used = offset + bytes;
  most = std::max(most, used);
  Value base = LLVM::AddressOfOp::create(e.builder, e.loc, e.ptr(SHARED_SPACE), SHARED_SYMBOL);
  return offset ? e.at(base, e.builder.getI8Type(), offset) : base;
}

void KernelBuilder::parameters(unsigned bindingCount, unsigned constantCount) {
  bindings = bindingCount;
  constants = constantCount;
}

void KernelBuilder::stage(const StageShape &shape, const std::function<void(Emitter &, StageFrame &)> &body) {
  result.stages.push_back(emit(stageName(request, result.stages.size()), shape, body));
}

void KernelBuilder::libraryStage(const StageShape &shape,
                                 const std::function<void(Emitter &, StageFrame &)> &body) {
  std::string name = request.kernel.name + "_library_" + std::to_string(result.library.size());
  result.library.push_back(emit(name, shape, body));
}

Stage KernelBuilder::emit(const std::string &name, const StageShape &shape,
                          const std::function<void(Emitter &, StageFrame &)> &body) {
  OpBuilder builder(module.getContext());
  declareShared(module, builder);
  builder.setInsertionPointToEnd(module.getBody());
  Location loc = module.getLoc();
  Emitter e(builder, loc, target_);
  llvm::SmallVector<Type> types(bindings, e.ptr(GLOBAL_SPACE));
  types.append(constants, e.i32());
  types.append(2, e.ptr(GLOBAL_SPACE)); // scratch, tickets
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()), types);
  auto function = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({static_cast<int32_t>(shape.threads)}));
  if (shape.min_blocks) {
    function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      builder.getI32IntegerAttr(static_cast<int32_t>(shape.min_blocks)));
  }
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  StageFrame frame(e, *entry, bindings, constants);
  body(e, frame);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  return {name, {shape.x, shape.y, shape.z}, shape.threads, frame.sharedBytes()};
}

} // namespace smelt::codegen::cuda
