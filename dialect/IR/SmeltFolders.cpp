// Folders and canonicalisations of the tensor level. Each keeps every bit of the result: nothing here
// reorders or drops floating-point arithmetic, so a residual_add of scale 0 stays (0 * inf is nan).
#include "dialect/IR/SmeltOps.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::smelt;

// A segment whose body yields its argument is its input, however often it runs.
OpFoldResult SegmentOp::fold(FoldAdaptor) {
  return getYield().getValues()[0] == getBody().getArgument(0) ? getInput() : OpFoldResult();
}

// With one layer or one visit both orders run the same sequence and use the same slots.
LogicalResult SegmentOp::canonicalize(SegmentOp op, PatternRewriter &rewriter) {
  if (op.getOrder() == VisitOrder::block || (op.layerCount() > 1 && op.getVisits() > 1)) {
    return failure();
  }
  rewriter.modifyOpInPlace(op, [&] { op.setOrder(VisitOrder::block); });
  return success();
}

// heads(1) normalises whole rows, as no heads does.
LogicalResult RmsNormOp::canonicalize(RmsNormOp op, PatternRewriter &rewriter) {
  if (op.getHeads() != 1) {
    return failure();
  }
  rewriter.modifyOpInPlace(op, [&] { op.removeHeadsAttr(); });
  return success();
}

// Operands that the body ignores and results that nobody uses are dropped, and the ops computing only those
// become dead.
LogicalResult FusedOp::canonicalize(FusedOp op, PatternRewriter &rewriter) {
  Block &body = op.getBody().front();
  YieldOp yield = op.getYield();
  SmallVector<Value> inputs, yielded, kept;
  for (auto [result, value] : llvm::zip_equal(op.getResults(), yield.getValues())) {
    if (!result.use_empty()) {
      kept.push_back(result);
      yielded.push_back(value);
    }
  }
  llvm::BitVector unusedArguments(body.getNumArguments());
  for (auto [argument, input] : llvm::zip_equal(body.getArguments(), op.getInputs())) {
    bool used = llvm::any_of(argument.getUsers(), [&](Operation *user) { return user != yield; }) ||
                llvm::is_contained(yielded, argument);
    used ? inputs.push_back(input) : (void)unusedArguments.set(argument.getArgNumber());
  }
  if (kept.size() == op.getNumResults() && inputs.size() == op.getInputs().size()) {
    return failure();
  }

  auto smaller = FusedOp::create(rewriter, op.getLoc(), TypeRange(ValueRange(yielded)), op.getRole(), inputs);
  smaller->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  rewriter.modifyOpInPlace(yield, [&] { yield.getValuesMutable().assign(yielded); });
  rewriter.modifyOpInPlace(op, [&] { body.eraseArguments(unusedArguments); });
  rewriter.inlineRegionBefore(op.getBody(), smaller.getBody(), smaller.getBody().end());
  for (auto [result, replacement] : llvm::zip_equal(kept, smaller.getResults())) {
    rewriter.replaceAllUsesWith(result, replacement);
  }
  rewriter.eraseOp(op);
  return success();
}
