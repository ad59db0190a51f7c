#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::smelt {

#define GEN_PASS_DEF_SMELTMERGESHORTSTEP
#include "dialect/Transforms/Passes.h.inc"

namespace {

class BlockMerger {
public:
  BlockMerger(IRRewriter &rewriter, Block &block) : rewriter(rewriter), block(block) {}

  void run() {
    for (FusedOp fused : llvm::to_vector(block.getOps<FusedOp>())) {
      if (fused.getRole() == "rope_append") {
        mergeAttentionInput(fused);
      } else if (fused.getRole() == "route") {
        mergeRouter(fused);
      }
    }
    for (FusedOp fused : llvm::to_vector(block.getOps<FusedOp>())) {
      if (fused.getRole() == "combine_residual") {
        mergeExperts(fused);
      }
    }
    sortTopologically(&block);
  }

private:
  // The fused op of a role that makes a value for one reader alone; null otherwise.
  FusedOp producer(Value value, StringRef role, FusedOp reader) {
    auto fused = value.getDefiningOp<FusedOp>();
    bool only = fused && fused.getRole() == role && fused->getBlock() == &block &&
                llvm::all_of(value.getUsers(), [&](Operation *user) { return user == reader; });
    return only ? fused : FusedOp();
  }

  // Normalisation, projections, rotation and the write to the cache.
  void mergeAttentionInput(FusedOp rope) {
    FusedOp projections = producer(rope.getInputs()[0], "norm_linear", rope);
    if (!projections || projections.getBody().getOps<RmsNormOp>().empty()) {
      return;
    }
    bool allHere = llvm::all_of(projections.getResults(), [&](Value result) {
      return producer(result, "norm_linear", rope) == projections;
    });
    if (allHere) {
      merge("norm_qkv_rope", {projections, rope});
    }
  }

  // With the first projections of the shared experts, which read the same.
  void mergeRouter(FusedOp route) {
    FusedOp router = producer(route.getInputs()[0], "norm_linear", route);
    bool plain = router && !router.getBody().getOps<RmsNormOp>().empty() &&
                 llvm::none_of(router.getBody().getOps<LinearOp>(), [](LinearOp op) { return op.getBias(); });
    if (!plain) {
      return;
    }
    for (Operation *user : llvm::to_vector(router->getUsers())) {
      auto shared = dyn_cast<FusedOp>(user);
      if (shared && shared.getRole() == "gate_up" && shared->getBlock() == &block &&
          shared.getInputs().size() == 1) {
        merge("norm_route", {router, route, shared});
        return;
      }
    }
    merge("norm_route", {router, route});
  }

  void mergeExperts(FusedOp combine) {
    for (Value input : combine.getInputs()) {
      FusedOp down = producer(input, "experts_down", combine);
      FusedOp gateUp = down ? producer(down.getInputs()[0], "experts_gate_up", down) : FusedOp();
      if (gateUp) {
        if (FusedOp shared = writeBefore(combine)) {
          merge("experts_gate_up_direct", {gateUp, shared});
        } else {
          gateUp.setRole("experts_gate_up_direct");
        }
        merge("experts_down_residual", {down, combine});
        return;
      }
    }
  }

  // The residual write of the shared experts, which follows that of the others, put before it: the two are
  // summands. Null when there is none.
  FusedOp writeBefore(FusedOp combine) {
    Value sum = combine.getResult(0);
    auto shared = sum.hasOneUse() ? dyn_cast<FusedOp>(*sum.getUsers().begin()) : FusedOp();
    if (!shared || shared.getRole() != "linear_residual" || shared->getBlock() != &block) {
      return {};
    }
    OpOperand &read = *sum.getUses().begin(), *before = residualOf(combine);
    if (residualOf(shared) != &read) {
      return {};
    }
    Value x = before->get();
    rewriter.replaceAllUsesWith(shared.getResult(0), sum);
    read.set(x);
    before->set(shared.getResult(0));
    return shared;
  }

  // The operand that the residual write of a fused op adds to.
  OpOperand *residualOf(FusedOp fused) {
    auto write = *fused.getBody().getOps<ResidualAddOp>().begin();
    auto argument = cast<BlockArgument>(write.getInput());
    return &fused->getOpOperand(argument.getArgNumber());
  }

  // One fused op with the bodies of several, where the last of them stands.
  void merge(StringRef role, ArrayRef<FusedOp> parts) {
    SmallVector<Operation *> ops;
    for (FusedOp part : parts) {
      Block &body = part.getBody().front();
      YieldOp yield = part.getYield();
      for (auto [argument, input] : llvm::zip_equal(body.getArguments(), part.getInputs())) {
        rewriter.replaceAllUsesWith(argument, input);
      }
      rewriter.replaceAllUsesWith(part.getResults(), SmallVector<Value>(yield.getValues()));
      for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
        rewriter.moveOpBefore(&op, parts.back());
        ops.push_back(&op);
      }
    }
    for (FusedOp part : parts) {
      rewriter.eraseOp(part);
    }
    FusedOp::outline(rewriter, role, ops);
  }

  IRRewriter &rewriter;
  Block &block;
};

class MergeShortStep : public impl::SmeltMergeShortStepBase<MergeShortStep> {
  void runOnOperation() override {
    ForwardOp forward = getOperation().getForward();
    if (!forward) {
      return;
    }
    IRRewriter rewriter(&getContext());
    for (SegmentOp segment : forward.getBody().getOps<SegmentOp>()) {
      BlockMerger(rewriter, segment.getBody().front()).run();
    }
    BlockMerger(rewriter, forward.getBody().front()).run();
  }
};

} // namespace
} // namespace mlir::smelt
