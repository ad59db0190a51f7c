#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::smelt {

#define GEN_PASS_DEF_SMELTUNROLLVISITS
#include "dialect/Transforms/Passes.h.inc"

namespace {

// A copy of the segment that runs `layers` layers from `first` once, reading `x`.
Value cloneVisit(IRRewriter &rewriter, SegmentOp segment, Value x, int64_t first, int64_t layers,
                 int64_t visit) {
  auto copy = cast<SegmentOp>(rewriter.clone(*segment));
  copy.getInputMutable().assign(x);
  copy.setFirstLayer(first);
  copy.setEndLayer(first + layers);
  copy.setVisits(1);
  copy.setOrder(VisitOrder::block);
  copy.setKvBase(segment.kvSlot(visit, first));
  return copy.getResult();
}

void unroll(IRRewriter &rewriter, SegmentOp segment) {
  rewriter.setInsertionPoint(segment);
  Value x = segment.getInput();
  if (segment.getOrder() == VisitOrder::block) {
    for (int64_t visit = 0; visit < segment.getVisits(); ++visit) {
      x = cloneVisit(rewriter, segment, x, segment.getFirstLayer(), segment.layerCount(), visit);
    }
  } else {
    for (int64_t layer = segment.getFirstLayer(); layer < segment.getEndLayer(); ++layer) {
      for (int64_t visit = 0; visit < segment.getVisits(); ++visit) {
        x = cloneVisit(rewriter, segment, x, layer, 1, visit);
      }
    }
  }
  rewriter.replaceOp(segment, x);
}

class UnrollVisits : public impl::SmeltUnrollVisitsBase<UnrollVisits> {
  void runOnOperation() override {
    ForwardOp forward = getOperation().getForward();
    if (!forward) {
      return;
    }
    IRRewriter rewriter(&getContext());
    for (SegmentOp segment : llvm::make_early_inc_range(forward.getBody().getOps<SegmentOp>())) {
      if (segment.getVisits() > 1) {
        unroll(rewriter, segment);
      }
    }
  }
};

} // namespace
} // namespace mlir::smelt
