#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/Passes.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::smelt {

#define GEN_PASS_DEF_SMELTFUSE
#include "dialect/Transforms/Passes.h.inc"

namespace {

// x + s * (a + b) as (x + s * a) + s * b: each addend then ends in a residual write of its own.
void splitSums(IRRewriter &rewriter, Block &block) {
  for (auto write : llvm::make_early_inc_range(block.getOps<ResidualAddOp>())) {
    while (auto sum = write.getUpdate().getDefiningOp<AddOp>()) {
      if (!sum->hasOneUse()) {
        break;
      }
      rewriter.setInsertionPoint(write);
      Value first =
          ResidualAddOp::create(rewriter, write.getLoc(), write.getInput(), sum.getLhs(), write.getScale());
      write.getInputMutable().assign(first);
      write.getUpdateMutable().assign(sum.getRhs());
      rewriter.eraseOp(sum);
      write = first.getDefiningOp<ResidualAddOp>();
    }
  }
}

// Fuses the ops of one block, each role in turn. Every step takes only ops that are still outside fused ops.
class BlockFuser {
public:
  BlockFuser(IRRewriter &rewriter, Block &block) : rewriter(rewriter), block(block) {}

  LogicalResult run() {
    splitSums(rewriter, block);
    fuseAll<AttentionOp>([&](AttentionOp op) { return fuseAttention(op); });
    fuseAll<RouteOp>([&](RouteOp op) { return fuseRoute(op); });
    fuseAll<SwigluOp>([&](SwigluOp op) { return fuseSwiglu(op); });
    fuseAll<ResidualAddOp>([&](ResidualAddOp op) { return fuseResidualWrite(op); });
    fuseAll<ExpertLinearOp>([&](ExpertLinearOp op) { return outline("experts_down", {op}); });
    fuseAll<EmbedOp>([&](EmbedOp op) { return outline("embed", {op}); });
    fuseAll<LmHeadOp>([&](LmHeadOp op) { return fuseProjections({op}); });
    fuseAll<LinearOp>([&](LinearOp op) { return fuseProjections({op}); });
    LogicalResult complete = checkNothingLeft();
    sortTopologically(&block);
    return complete;
  }

private:
  template <typename OpT> void fuseAll(llvm::function_ref<void(OpT)> fuse) {
    SmallVector<OpT> ops(block.getOps<OpT>());
    for (OpT op : ops) {
      if (op->getBlock() == &block) {
        fuse(op);
      }
    }
  }

  // The op of this block that makes a value and is in no fused op yet; null otherwise.
  template <typename OpT> OpT unfused(Value value) {
    auto op = value.getDefiningOp<OpT>();
    return op && op->getBlock() == &block ? op : OpT();
  }
  // The same for a value with a single use.
  template <typename OpT> OpT only(Value value) { return value.hasOneUse() ? unfused<OpT>(value) : OpT(); }

  // Gathers ops, in the order given, where the last of them stands, and fuses them.
  FusedOp outline(StringRef role, ArrayRef<Operation *> ops) {
    Operation *last =
        *llvm::max_element(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    Operation *anchor = last->getNextNode();
    for (Operation *op : ops) {
      rewriter.moveOpBefore(op, anchor);
    }
    return FusedOp::outline(rewriter, role, ops);
  }

  // Projections of one input, with the normalisation they read unless another kernel has it already.
  FusedOp fuseProjections(ArrayRef<Operation *> projections) {
    SmallVector<Operation *> ops(projections);
    if (auto norm = unfused<RmsNormOp>(projections[0]->getOperand(0)); norm && !norm.getHeads()) {
      ops.insert(ops.begin(), norm);
    }
    return outline("norm_linear", ops);
  }

  // One of query and key on its way from the projection to the attention.
  struct Head {
    RopeOp rope;
    RmsNormOp norm; // null without QK-norm
    LinearOp linear;
  };
  Head traceHead(Value rotated) {
    Head head;
    head.rope = only<RopeOp>(rotated);
    if (!head.rope) {
      return head;
    }
    head.norm = only<RmsNormOp>(head.rope.getInput());
    head.linear = only<LinearOp>(head.norm ? head.norm.getInput() : head.rope.getInput());
    return head;
  }

  void fuseAttention(AttentionOp attention) {
    Head query = traceHead(attention.getQuery()), key = traceHead(attention.getKey());
    auto value = only<LinearOp>(attention.getValue());
    bool sameSource = query.linear && key.linear && value &&
                      query.linear.getInput() == key.linear.getInput() &&
                      query.linear.getInput() == value.getInput();
    bool alike = sameSource && !query.norm == !key.norm && !query.linear.getBias() == !key.linear.getBias() &&
                 !query.linear.getBias() == !value.getBias();
    if (!alike) {
      return; // reported as an op that no kernel computes
    }
    SmallVector<Operation *> rotation = {query.rope, key.rope};
    if (query.norm) {
      rotation.insert(rotation.begin(), {query.norm, key.norm});
    }
    passThrough(outline("rope_append", rotation), attention.getValueMutable());
    outline("attention", {attention});
    fuseProjections({query.linear, key.linear, value});
  }

  // Makes `use` read its value through the fused op, which stores it for later kernels.
  void passThrough(FusedOp fused, OpOperand &use) {
    Value value = use.get();
    SmallVector<Value> inputs(fused.getInputs());
    inputs.push_back(value);
    SmallVector<Type> types(fused.getResultTypes());
    types.push_back(value.getType());

    rewriter.setInsertionPoint(fused);
    auto wider = FusedOp::create(rewriter, fused.getLoc(), types, fused.getRole(), inputs);
    YieldOp yield = fused.getYield();
    yield.getValuesMutable().append(fused.getBody().addArgument(value.getType(), value.getLoc()));
    rewriter.inlineRegionBefore(fused.getBody(), wider.getBody(), wider.getBody().end());
    rewriter.replaceAllUsesWith(fused.getResults(), wider.getResults().drop_back());
    rewriter.eraseOp(fused);
    use.set(wider.getResults().back());
  }

  void fuseRoute(RouteOp route) {
    auto router = only<LinearOp>(route.getLogits());
    outline("route", {route});
    if (router) {
      fuseProjections({router});
    }
  }

  void fuseSwiglu(SwigluOp swiglu) {
    auto expertGate = only<ExpertLinearOp>(swiglu.getGate()), expertUp = only<ExpertLinearOp>(swiglu.getUp());
    if (expertGate && expertUp && expertGate.getInput() == expertUp.getInput() &&
        expertGate.getIndices() == expertUp.getIndices()) {
      outline("experts_gate_up", {expertGate, expertUp, swiglu});
      return;
    }
    auto gate = only<LinearOp>(swiglu.getGate()), up = only<LinearOp>(swiglu.getUp());
    if (!gate || !up || gate.getInput() != up.getInput() || gate.getBias() || up.getBias()) {
      return;
    }
    SmallVector<Operation *> ops = {gate, up, swiglu};
    auto norm = unfused<RmsNormOp>(gate.getInput());
    if (norm && !norm.getHeads() &&
        llvm::all_of(norm->getUsers(), [&](Operation *user) { return user == gate || user == up; })) {
      ops.insert(ops.begin(), norm);
    }
    outline("gate_up", ops);
  }

  void fuseResidualWrite(ResidualAddOp write) {
    if (auto combine = only<CombineOp>(write.getUpdate())) {
      outline("combine_residual", {combine, write});
    } else if (auto linear = only<LinearOp>(write.getUpdate()); linear && !linear.getBias()) {
      outline("linear_residual", {linear, write});
    }
  }

  LogicalResult checkNothingLeft() {
    LogicalResult result = success();
    for (Operation &op : block.without_terminator()) {
      if (!isa<FusedOp, SegmentOp>(op)) {
        result = op.emitOpError("has no kernel in this place; ") << expectation(op);
      }
    }
    return result;
  }

  // What the kernels ask of an op that none of them took.
  static StringRef expectation(Operation &op) {
    return llvm::TypeSwitch<Operation *, StringRef>(&op)
        .Case<AttentionOp, RopeOp>([](auto) {
          return "attention needs query and key to be rotated projections and the value a projection of one "
                 "input, "
                 "each used once, both or neither normalised, all or none with bias";
        })
        .Case<RmsNormOp>([](auto) { return "a normalisation must feed a projection of whole rows"; })
        .Case<SwigluOp>(
            [](auto) { return "gate and up must be projections of one input, without bias, each used once"; })
        .Case<ResidualAddOp>([](auto) {
          return "the update must be a smelt.combine or a smelt.linear without bias, used once";
        })
        .Case<CombineOp>([](auto) { return "a combination must end in a residual write"; })
        .Case<AddOp>([](auto) { return "a sum must end in a residual write and have no other use"; })
        .Default([](auto) { return "fusion takes tensor-level ops only"; });
  }

  IRRewriter &rewriter;
  Block &block;
};

class Fuse : public impl::SmeltFuseBase<Fuse> {
  void runOnOperation() override {
    ForwardOp forward = getOperation().getForward();
    if (!forward) {
      return;
    }
    IRRewriter rewriter(&getContext());
    LogicalResult result = success();
    for (SegmentOp segment : forward.getBody().getOps<SegmentOp>()) {
      result = failure(failed(BlockFuser(rewriter, segment.getBody().front()).run()) || failed(result));
    }
    result = failure(failed(BlockFuser(rewriter, forward.getBody().front()).run()) || failed(result));
    if (failed(result)) {
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace mlir::smelt
