// Verifiers of the tensor level. Labels are those of docs/dialect.md.
#include "dialect/IR/SmeltOps.h"

#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::smelt;

// More than any model has; sums and products of numbers below them do not overflow.
static constexpr int64_t maxLayers = 65536, maxVisits = 65536,
                         maxKvBase = std::numeric_limits<int32_t>::max();

static bool areLayers(int64_t first, int64_t end) { return 0 <= first && first < end && end <= maxLayers; }

//===----------------------------------------------------------------------===//
// Uses of weights
//===----------------------------------------------------------------------===//

namespace {
// What an op needs of a weight it names.
struct WeightNeed {
  FlatSymbolRefAttr symbol;
  SmallVector<int64_t, 2> shape;
  // The choice of experts, for weights with one tensor for each expert.
  Value indices = nullptr;
};
} // namespace

static std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleave(shape, stream, "x");
  return text;
}

// The route that made these indices, looking through fused ops; null when they come from elsewhere.
static RouteOp routeOf(Value indices) {
  if (auto argument = dyn_cast<BlockArgument>(indices)) {
    auto fused = dyn_cast<FusedOp>(argument.getOwner()->getParentOp());
    bool known = fused && argument.getArgNumber() < fused.getInputs().size();
    return known ? routeOf(fused.getInputs()[argument.getArgNumber()]) : nullptr;
  }
  auto result = cast<OpResult>(indices);
  if (auto fused = dyn_cast<FusedOp>(result.getOwner())) {
    auto yield = dyn_cast<YieldOp>(fused.getBody().front().getTerminator());
    bool known = yield && result.getResultNumber() < yield.getValues().size();
    return known ? routeOf(yield.getValues()[result.getResultNumber()]) : nullptr;
  }
  return dyn_cast<RouteOp>(result.getOwner());
}

static LogicalResult verifyExperts(Operation *op, WeightOp weight, Value indices) {
  if (!indices) {
    if (weight.isPerExpert()) { // U3
      return op->emitOpError() << "reads one tensor, but weight @" << weight.getSymName() << " has "
                               << weight.getExperts() << " experts";
    }
    return success();
  }
  if (!weight.isPerExpert()) { // U3
    return op->emitOpError() << "reads a tensor for each expert, but weight @" << weight.getSymName()
                             << " has no experts";
  }
  RouteOp route = routeOf(indices);
  if (route && width(route.getLogits()) != weight.getExperts()) { // U3
    return op->emitOpError() << "gets indices of " << width(route.getLogits()) << " experts, but weight @"
                             << weight.getSymName() << " has " << weight.getExperts() << " experts";
  }
  return success();
}

static LogicalResult verifyLayers(Operation *op, WeightOp weight) {
  auto segment = op->getParentOfType<SegmentOp>();
  if (!weight.isPerLayer()) {
    return success();
  }
  if (!segment) { // U4
    return op->emitOpError() << "is outside any segment, but weight @" << weight.getSymName()
                             << " belongs to layers " << weight.getFirstLayer() << " to "
                             << weight.getEndLayer();
  }
  if (segment.getFirstLayer() < weight.getFirstLayer() ||
      segment.getEndLayer() > weight.getEndLayer()) { // U4
    return op->emitOpError() << "runs in layers " << segment.getFirstLayer() << " to "
                             << segment.getEndLayer() << ", but weight @" << weight.getSymName()
                             << " belongs to layers " << weight.getFirstLayer() << " to "
                             << weight.getEndLayer();
  }
  return success();
}

static LogicalResult verifyWeight(Operation *op, SymbolTableCollection &symbols, const WeightNeed &need) {
  Operation *target = symbols.lookupNearestSymbolFrom(op, need.symbol);
  auto weight = dyn_cast_or_null<WeightOp>(target);
  if (!weight) { // U1
    InFlightDiagnostic diagnostic = op->emitOpError()
                                    << "needs a smelt.weight, but " << need.symbol << " is ";
    return target ? diagnostic << "a " << target->getName() : diagnostic << "not declared in the model";
  }
  if (weight.getType().getShape() != ArrayRef<int64_t>(need.shape)) { // U2
    return op->emitOpError() << "needs a weight of shape " << shapeText(need.shape) << ", but " << need.symbol
                             << " has shape " << shapeText(weight.getType().getShape());
  }
  bool multiplies = isa<LinearOp, ExpertLinearOp, LmHeadOp>(op);
  if (weight.getType().getElementType().isInteger(8) && !multiplies) { // U5
    return op->emitOpError() << "does not read i8 weights, but " << need.symbol << " is one";
  }
  if (failed(verifyExperts(op, weight, need.indices))) {
    return failure();
  }
  return verifyLayers(op, weight);
}

LogicalResult EmbedOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto model = (*this)->getParentOfType<ModelOp>();
  int64_t vocab = model ? model.getVocabSize() : 0;
  return verifyWeight(*this, symbols, {getWeightAttr(), {vocab, width(getResult())}}); // C2
}

LogicalResult RmsNormOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyWeight(*this, symbols, {getWeightAttr(), {groupWidth()}});
}

LogicalResult LinearOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t out = width(getResult());
  if (failed(verifyWeight(*this, symbols, {getWeightAttr(), {out, width(getInput())}}))) {
    return failure();
  }
  return getBiasAttr() ? verifyWeight(*this, symbols, {getBiasAttr(), {out}}) : success();
}

LogicalResult ExpertLinearOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyWeight(*this, symbols,
                      {getWeightAttr(), {width(getResult()), width(getInput())}, getIndices()});
}

LogicalResult LmHeadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyWeight(*this, symbols, {getWeightAttr(), {width(getResult()), width(getInput())}});
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

LogicalResult ModelOp::verifyRegions() {
  if (getVocabSize() <= 0 || getHiddenSize() <= 0) { // C1
    return emitOpError() << "needs a positive vocab_size and hidden_size, got " << getVocabSize() << " and "
                         << getHiddenSize();
  }
  if (getDevice() && *getDevice() != "cuda") { // C5
    return emitOpError() << "has device '" << *getDevice() << "'; the only one to name is 'cuda'";
  }
  if (getKvDtype() && *getKvDtype() != "bf16") { // C6
    return emitOpError() << "has kv_dtype '" << *getKvDtype()
                         << "'; the only one to name is 'bf16', and f32 is what is kept without";
  }
  ForwardOp forward;
  llvm::StringMap<WeightOp> sources;
  for (Operation &op : getBody().front()) {
    if (op.getName().getDialectNamespace() != SmeltDialect::getDialectNamespace()) { // C2
      return emitOpError() << "holds only ops of the smelt dialect, got '" << op.getName() << "'";
    }
    if (auto other = dyn_cast<ForwardOp>(op)) {
      if (forward) { // C3
        InFlightDiagnostic diagnostic = emitOpError() << "has two forwards";
        diagnostic.attachNote(forward.getLoc()) << "the first";
        diagnostic.attachNote(other.getLoc()) << "the second";
        return diagnostic;
      }
      forward = other;
    }
    if (auto weight = dyn_cast<WeightOp>(op)) {
      for (int64_t layer = weight.getFirstLayer(); layer < std::max<int64_t>(weight.getEndLayer(), 1);
           ++layer) {
        auto [entry, isNew] = sources.try_emplace(weight.tensorName(layer, 0), weight);
        if (!isNew) { // C4
          InFlightDiagnostic diagnostic = weight.emitOpError()
                                          << "names tensor '" << entry->getKey() << "', as weight @"
                                          << entry->getValue().getSymName() << " does";
          diagnostic.attachNote(entry->getValue().getLoc()) << "the other weight";
          return diagnostic;
        }
      }
    }
  }
  return success();
}

LogicalResult WeightOp::verify() {
  bool hasBounds = getFirstLayer() != 0 || getEndLayer() != 0;
  if (hasBounds && !areLayers(getFirstLayer(), getEndLayer())) { // C1
    return emitOpError() << "needs layers(a to b) with 0 <= a < b <= " << maxLayers << ", got layers("
                         << getFirstLayer() << " to " << getEndLayer() << ")";
  }
  if (getExperts() < 0) { // C2
    return emitOpError() << "needs a positive number of experts, got " << getExperts();
  }
  if (isPerExpert() && !isPerLayer()) { // C2
    return emitOpError() << "has " << getExperts() << " experts but no layers";
  }
  auto fits = [&](StringRef placeholder, bool wanted) { return getSource().contains(placeholder) == wanted; };
  if (!fits("{layer}", isPerLayer())) { // C3
    return emitOpError() << (isPerLayer() ? "has layers, but its source '"
                                          : "has no layers, but its source '")
                         << getSource() << (isPerLayer() ? "' has no {layer}" : "' has {layer}");
  }
  if (!fits("{expert}", isPerExpert())) { // C3
    return emitOpError() << (isPerExpert() ? "has experts, but its source '"
                                           : "has no experts, but its source '")
                         << getSource() << (isPerExpert() ? "' has no {expert}" : "' has {expert}");
  }
  if (getLayout() != WeightLayout::row_major && getType().getRank() != 2) { // C4
    return emitOpError() << "has layout " << stringifyWeightLayout(getLayout())
                         << ", which is for matrices, but the type " << getType();
  }
  if (getType().getElementType().isInteger(8) && getType().getRank() != 2) { // C5
    return emitOpError() << "is of i8, which is for matrices, but has the type " << getType();
  }
  return success();
}

LogicalResult ForwardOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getNumArguments() != 1 || !isTokens(body.getArgument(0).getType())) { // C1
    return emitOpError() << "body needs one argument of type tensor<?xi32>, got (" << body.getArgumentTypes()
                         << ")";
  }
  auto ret = dyn_cast<ReturnOp>(body.getTerminator());
  if (!ret) { // C1
    return emitOpError() << "body ends in smelt.return, got '" << body.getTerminator()->getName() << "'";
  }
  int64_t vocab = cast<ModelOp>((*this)->getParentOp()).getVocabSize();
  if (width(ret.getLogits()) != vocab) { // C2
    return ret.emitOpError() << "returns rows of " << width(ret.getLogits())
                             << " logits, but the model's vocab_size is " << vocab;
  }
  SmallVector<SegmentOp> segments(body.getOps<SegmentOp>());
  llvm::sort(segments, [](SegmentOp a, SegmentOp b) { return a.getKvBase() < b.getKvBase(); });
  for (size_t i = 1; i < segments.size(); ++i) {
    SegmentOp before = segments[i - 1], after = segments[i];
    int64_t end = before.getKvBase() + before.executedLayers();
    if (after.getKvBase() < end) { // C3
      InFlightDiagnostic diagnostic = after.emitOpError()
                                      << "uses KV slots from " << after.getKvBase()
                                      << ", but another segment uses " << before.getKvBase() << " to " << end;
      diagnostic.attachNote(before.getLoc()) << "the other segment";
      return diagnostic;
    }
  }
  return success();
}

LogicalResult SegmentOp::verify() {
  if (!areLayers(getFirstLayer(), getEndLayer())) { // C1
    return emitOpError() << "needs layers(a to b) with 0 <= a < b <= " << maxLayers << ", got layers("
                         << getFirstLayer() << " to " << getEndLayer() << ")";
  }
  if (getVisits() < 1 || getVisits() > maxVisits) { // C2
    return emitOpError() << "needs 1 to " << maxVisits << " visits, got " << getVisits();
  }
  if (getKvBase() < 0 || getKvBase() > maxKvBase) { // C3
    return emitOpError() << "needs a kv_base from 0 to " << maxKvBase << ", got " << getKvBase();
  }
  return success();
}

// The body's arguments have types `inputs`, and it yields types `outputs`.
static LogicalResult verifyBody(Operation *op, Block &body, TypeRange inputs, TypeRange outputs) {
  if (body.getArgumentTypes() != inputs) {
    return op->emitOpError() << "body has arguments (" << body.getArgumentTypes()
                             << "), but the operands have types (" << inputs << ")";
  }
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield) {
    return op->emitOpError() << "body ends in smelt.yield, got '" << body.getTerminator()->getName() << "'";
  }
  if (yield.getValues().getTypes() != outputs) {
    return op->emitOpError() << "body yields (" << yield.getValues().getTypes()
                             << "), but the results have types (" << outputs << ")";
  }
  return success();
}

LogicalResult SegmentOp::verifyRegions() {
  if (failed(verifyBody(*this, getBody().front(), getInput().getType(), getResult().getType()))) { // C4
    return failure();
  }
  SmallVector<AttentionOp> attentions;
  getBody().walk([&](AttentionOp attention) { attentions.push_back(attention); });
  if (attentions.size() > 1) { // C5
    InFlightDiagnostic diagnostic = emitOpError() << "has one KV slot for each executed layer, but "
                                                  << attentions.size() << " attentions in its body";
    diagnostic.attachNote(attentions[1].getLoc()) << "the second";
    return diagnostic;
  }
  return success();
}

LogicalResult FusedOp::verifyRegions() {
  Block &body = getBody().front();
  if (failed(verifyBody(*this, body, getInputs().getTypes(), getResults().getTypes()))) { // C1
    return failure();
  }
  for (Operation &op : body) {
    if (op.getName().getDialectNamespace() != SmeltDialect::getDialectNamespace() ||
        op.getNumRegions()) { // C2
      return emitOpError() << "holds only smelt ops without regions, got '" << op.getName() << "'";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

LogicalResult EmbedOp::verify() {
  auto model = (*this)->getParentOfType<ModelOp>();
  if (model && width(getResult()) != model.getHiddenSize()) { // C1
    return emitOpError() << "makes rows of " << width(getResult())
                         << " columns, but the model's hidden_size is " << model.getHiddenSize();
  }
  return success();
}

LogicalResult RmsNormOp::verify() {
  if (!(getEps().convertToFloat() > 0) || !getEps().isFinite()) { // C1
    return emitOpError() << "needs a positive, finite eps, got " << getEps().convertToFloat();
  }
  int64_t heads = getHeads().value_or(1);
  if (heads <= 0 || width(getInput()) % heads != 0) { // C2
    return emitOpError() << "cannot split " << width(getInput()) << " columns into " << heads << " heads";
  }
  return success();
}

LogicalResult RopeOp::verify() {
  int64_t columns = width(getInput()), heads = getHeads();
  if (heads <= 0 || columns % heads != 0 || (columns / heads) % 2 != 0) { // C1
    return emitOpError() << "cannot split " << columns << " columns into " << heads << " heads of even size";
  }
  double theta = getTheta().convertToDouble();
  if (!(theta > 0) || !std::isfinite(theta)) { // C2
    return emitOpError() << "needs a positive, finite theta, got " << theta;
  }
  return success();
}

LogicalResult AttentionOp::verify() {
  int64_t queryHeads = getQueryHeads(), kvHeads = getKvHeads(), headDim = getHeadDim();
  if (queryHeads <= 0 || kvHeads <= 0 || headDim <= 0 || queryHeads % kvHeads != 0) { // C1
    return emitOpError() << "needs positive sizes and query_heads a multiple of kv_heads, got query_heads "
                         << queryHeads << ", kv_heads " << kvHeads << " and head_dim " << headDim;
  }
  auto holds = [&](Value rows, int64_t heads) { // without a product that could overflow
    return width(rows) % heads == 0 && width(rows) / heads == headDim;
  };
  if (!holds(getQuery(), queryHeads)) { // C2
    return emitOpError() << "has a query of " << width(getQuery()) << " columns, but " << queryHeads
                         << " heads of " << headDim;
  }
  if (!holds(getKey(), kvHeads)) { // C2
    return emitOpError() << "has a key of " << width(getKey()) << " columns, but " << kvHeads << " heads of "
                         << headDim;
  }
  if (!(*this)->getParentOfType<SegmentOp>()) { // C3
    return emitOpError() << "is outside any segment, which would give it a slot of the KV cache";
  }
  return success();
}

LogicalResult RouteOp::verify() {
  int64_t experts = width(getLogits()), topK = getTopK();
  if (topK < 1 || topK > experts) { // C1
    return emitOpError() << "cannot choose " << topK << " of " << experts << " experts";
  }
  if (width(getIndices()) != topK || width(getWeights()) != topK) { // C2
    return emitOpError() << "chooses " << topK << " experts, but its results have " << width(getIndices())
                         << " and " << width(getWeights()) << " columns";
  }
  return success();
}

LogicalResult ExpertLinearOp::verify() {
  int64_t experts = width(getIndices());
  auto rows = [](Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(1); };
  if (isExpertRows(getInput().getType()) && rows(getInput()) != experts) { // C1
    return emitOpError() << "has " << rows(getInput()) << " input rows a token, but " << experts
                         << " indices";
  }
  if (rows(getResult()) != experts) { // C1
    return emitOpError() << "has " << rows(getResult()) << " result rows a token, but " << experts
                         << " indices";
  }
  return success();
}

LogicalResult CombineOp::verify() {
  auto rows = cast<RankedTensorType>(getRows().getType());
  if (rows.getDimSize(1) != width(getWeights())) { // C1
    return emitOpError() << "has " << rows.getDimSize(1) << " rows a token, but " << width(getWeights())
                         << " weights";
  }
  if (width(rows) != width(getResult())) { // C1
    return emitOpError() << "has rows of " << width(rows) << " columns, but a result of "
                         << width(getResult());
  }
  return success();
}

LogicalResult ResidualAddOp::verify() {
  if (!getScale().isFinite()) { // C1
    return emitOpError() << "needs a finite scale, got " << getScale().convertToFloat();
  }
  return success();
}
