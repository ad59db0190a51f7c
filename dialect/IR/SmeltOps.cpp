// Types, accessors and builders of the tensor level. Verifiers are in SmeltVerifiers.cpp, folders in
// SmeltFolders.cpp.
#include "dialect/IR/SmeltOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::smelt;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

// A tensor of this rank whose first dimension alone is dynamic.
static RankedTensorType asTokenTensor(Type type, int64_t rank) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getEncoding() || tensor.getRank() != rank || !tensor.isDynamicDim(0)) {
    return nullptr;
  }
  bool known = llvm::all_of(tensor.getShape().drop_front(), [](int64_t size) { return size > 0; });
  return known ? tensor : nullptr;
}

bool mlir::smelt::isTokens(Type type) {
  auto tensor = asTokenTensor(type, 1);
  return tensor && tensor.getElementType().isSignlessInteger(32);
}

bool mlir::smelt::isActivation(Type type) {
  auto tensor = asTokenTensor(type, 2);
  return tensor && tensor.getElementType().isF32();
}

bool mlir::smelt::isExpertRows(Type type) {
  auto tensor = asTokenTensor(type, 3);
  return tensor && tensor.getElementType().isF32();
}

bool mlir::smelt::isExpertIndices(Type type) {
  auto tensor = asTokenTensor(type, 2);
  return tensor && tensor.getElementType().isSignlessInteger(32);
}

bool mlir::smelt::isWeightType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && !tensor.getEncoding() && (tensor.getRank() == 1 || tensor.getRank() == 2) &&
         llvm::all_of(tensor.getShape(), [](int64_t size) { return size > 0; }) &&
         (tensor.getElementType().isF32() || tensor.getElementType().isBF16() ||
          tensor.getElementType().isSignlessInteger(8));
}

RankedTensorType mlir::smelt::activationType(MLIRContext *context, int64_t width) {
  return RankedTensorType::get({ShapedType::kDynamic, width}, Float32Type::get(context));
}

RankedTensorType mlir::smelt::expertRowsType(MLIRContext *context, int64_t rows, int64_t width) {
  return RankedTensorType::get({ShapedType::kDynamic, rows, width}, Float32Type::get(context));
}

RankedTensorType mlir::smelt::expertIndicesType(MLIRContext *context, int64_t rows) {
  return RankedTensorType::get({ShapedType::kDynamic, rows}, IntegerType::get(context, 32));
}

RankedTensorType mlir::smelt::tokensType(MLIRContext *context) {
  return RankedTensorType::get({ShapedType::kDynamic}, IntegerType::get(context, 32));
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

void ModelOp::build(OpBuilder &builder, OperationState &state, StringRef name, int64_t vocabSize,
                    int64_t hiddenSize) {
  state.getOrAddProperties<Properties>().sym_name = builder.getStringAttr(name);
  state.getOrAddProperties<Properties>().vocab_size = builder.getI64IntegerAttr(vocabSize);
  state.getOrAddProperties<Properties>().hidden_size = builder.getI64IntegerAttr(hiddenSize);
  state.addRegion()->emplaceBlock();
}

KvLayout ModelOp::kvLayout() {
  if (getDevice()) {
    return KvLayout::rows_bf16;
  }
  return getKvDtype() ? KvLayout::blocked_bf16 : KvLayout::blocked_f32;
}

ForwardOp ModelOp::getForward() {
  auto forwards = getBody().getOps<ForwardOp>();
  return forwards.empty() ? nullptr : *forwards.begin();
}

SymbolTable::Visibility WeightOp::getVisibility() { return SymbolTable::Visibility::Private; }

bool WeightOp::isDeclaration() { return true; }

static void replaceAll(std::string &text, StringRef from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string WeightOp::tensorName(int64_t layer, int64_t expert) {
  std::string name = getSource().str();
  if (isPerLayer()) {
    replaceAll(name, "{layer}", std::to_string(layer));
  }
  if (isPerExpert()) {
    replaceAll(name, "{expert}", std::to_string(expert));
  }
  return name;
}

void ForwardOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  if (region.getNumArguments() == 1) {
    setName(region.getArgument(0), "tokens");
  }
}

void SegmentOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  if (region.getNumArguments() == 1) {
    setName(region.getArgument(0), "x");
  }
}

YieldOp SegmentOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }

YieldOp FusedOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }

int64_t RmsNormOp::groupWidth() { return width(getInput()) / getHeads().value_or(1); }

FusedOp FusedOp::outline(RewriterBase &rewriter, StringRef role, ArrayRef<Operation *> ops) {
  DenseSet<Operation *> inside(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs, outputs;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands()) {
      if (!inside.contains(operand.getDefiningOp())) {
        inputs.insert(operand);
      }
    }
    for (Value result : op->getResults()) {
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); })) {
        outputs.insert(result);
      }
    }
  }

  SmallVector<Location> locations = llvm::map_to_vector(ops, [](Operation *op) { return op->getLoc(); });
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointAfter(ops.back());
  auto fused = FusedOp::create(rewriter, rewriter.getFusedLoc(locations),
                               TypeRange(ValueRange(outputs.getArrayRef())), role, inputs.getArrayRef());
  Block *body = rewriter.createBlock(&fused.getBody());
  for (Value input : inputs) {
    body->addArgument(input.getType(), input.getLoc());
  }
  for (Operation *op : ops) {
    rewriter.moveOpBefore(op, body, body->end());
  }
  for (auto [input, argument] : llvm::zip_equal(inputs, body->getArguments())) {
    rewriter.replaceUsesWithIf(input, argument,
                               [&](OpOperand &use) { return use.getOwner()->getBlock() == body; });
  }
  for (auto [output, result] : llvm::zip_equal(outputs, fused.getResults())) {
    rewriter.replaceUsesWithIf(output, result,
                               [&](OpOperand &use) { return use.getOwner()->getBlock() != body; });
  }
  rewriter.setInsertionPointToEnd(body);
  YieldOp::create(rewriter, fused.getLoc(), outputs.getArrayRef());
  return fused;
}

#define GET_OP_CLASSES
#include "dialect/IR/SmeltOps.cpp.inc"

void SmeltDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "dialect/IR/SmeltOps.cpp.inc"
      >();
}
