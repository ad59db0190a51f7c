#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/MemoryPlan.h"
#include "dialect/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::smelt {

#define GEN_PASS_DEF_SMELTTOKERNELS
#include "dialect/Transforms/Passes.h.inc"

namespace {

// Builds the program of one model next to its forward.
class ProgramBuilder {
public:
  ProgramBuilder(ModelOp model, const KernelForms &forms)
      : model(model), forms(forms), kernelBuilder(model.getForward()), builder(model.getContext()) {}

  LogicalResult run() {
    if (failed(readPlan())) {
      return failure();
    }
    kernelBuilder.setInsertionPoint(model.getForward());
    builder.setInsertionPointAfter(model.getForward());
    auto program = ProgramOp::create(builder, model.getLoc());
    program.getBody().emplaceBlock();
    for (Operation &op : model.getForward().getBody().front().without_terminator()) {
      builder.setInsertionPointToEnd(&program.getBody().front());
      if (auto segment = dyn_cast<SegmentOp>(op)) {
        addSegment(segment);
      } else {
        addStraight(cast<FusedOp>(op));
      }
    }
    return success();
  }

private:
  // The buffer of every value and routing plan, as smelt-plan-memory has written it on the ops.
  LogicalResult readPlan() {
    for (auto &entry : forms) {
      FusedOp fused = entry.first;
      const KernelForm &form = entry.second;
      auto names = fused->getAttrOfType<ArrayAttr>("results_in");
      if (!names || names.size() != fused.getNumResults() ||
          !llvm::all_of(names, llvm::IsaPred<FlatSymbolRefAttr>)) {
        return fused.emitOpError("has no results_in for its results; run smelt-plan-memory first");
      }
      for (auto [result, name] : llvm::zip(fused.getResults(), names.getAsRange<FlatSymbolRefAttr>())) {
        ofValue[result] = name;
      }
      if (form.role == "route") {
        auto name = fused->getAttrOfType<FlatSymbolRefAttr>("plan_in");
        if (!name) {
          return fused.emitOpError("has no plan_in; run smelt-plan-memory first");
        }
        ofPlan[moePlanForm(form).arguments[1].values[0]] = name;
      }
    }
    for (SegmentOp segment : model.getForward().getBody().getOps<SegmentOp>()) {
      FlatSymbolRefAttr stream = ofValue.lookup(segment.getInput());
      ofValue[segment.getBody().getArgument(0)] = stream;
      ofValue[segment.getResult()] = stream;
      FlatSymbolRefAttr yielded = ofValue.lookup(segment.getYield().getValues()[0]);
      if (yielded != stream) {
        return segment.emitOpError("takes its stream in ") << stream << " but yields it in " << yielded;
      }
    }
    return success();
  }

  // Straight-line calls share a block with their neighbours.
  void addStraight(FusedOp fused) {
    Block &program = *builder.getInsertionBlock();
    auto block = program.empty() ? BlockOp() : cast<BlockOp>(program.back());
    if (!block || block.getLayers() != 0) {
      block = BlockOp::create(builder, model.getLoc());
    }
    addCalls(block, fused);
  }

  void addSegment(SegmentOp segment) {
    auto slotBase = segment->getAttrOfType<IntegerAttr>("slot_base");
    auto block = BlockOp::create(builder, segment.getLoc(), segment.getFirstLayer(), segment.layerCount(),
                                 segment.getVisits(), segment.getOrder(), slotBase ? slotBase.getInt() : 0);
    for (FusedOp fused : segment.getBody().getOps<FusedOp>()) {
      addCalls(block, fused);
    }
  }

  void addCalls(BlockOp block, FusedOp fused) {
    const KernelForm &form = forms.find(fused)->second;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&block.getBody().front());
    addCall(fused.getLoc(), form);
    if (form.role == "route") {
      addCall(fused.getLoc(), moePlanForm(form));
    }
  }

  void addCall(Location loc, const KernelForm &form) {
    SmallVector<Attribute> bindings;
    for (auto [argument, described] : llvm::zip(form.arguments, form.signature.arguments)) {
      bindings.push_back(BindingAttr::get(builder.getContext(), described.kind, symbolOf(argument)));
    }
    const int32_t *immediate = form.immediates.begin();
    SmallVector<Attribute> constants;
    for (const KernelConstant &constant : form.signature.constants) {
      int32_t value = constant.kind == ConstantKind::immediate ? *immediate++ : 0;
      constants.push_back(ConstantAttr::get(builder.getContext(), constant.kind, value));
    }
    CallOp::create(builder, loc, kernelOf(form), builder.getArrayAttr(bindings),
                   builder.getArrayAttr(constants));
  }

  // The kernel of this role and params, made when it is first called.
  FlatSymbolRefAttr kernelOf(const KernelForm &form) {
    FlatSymbolRefAttr &symbol = kernels[{builder.getStringAttr(form.role), form.params}];
    if (!symbol) {
      std::string name = kernelName(form.role, form.params);
      KernelOp::create(kernelBuilder, model.getLoc(), builder.getStringAttr(name),
                       builder.getStringAttr(form.role), form.params);
      symbol = FlatSymbolRefAttr::get(builder.getContext(), name);
    }
    return symbol;
  }

  FlatSymbolRefAttr symbolOf(const FormArgument &argument) {
    switch (argument.source) {
    case ArgumentSource::values:
    case ArgumentSource::k_cache:
    case ArgumentSource::v_cache:
      return ofValue.lookup(argument.values[0]);
    case ArgumentSource::plan:
      return ofPlan.lookup(argument.values[0]);
    case ArgumentSource::weight:
      return argument.weight;
    case ArgumentSource::token_ids:
      return bufferOfKind(BufferKind::token_ids);
    case ArgumentSource::positions:
      return bufferOfKind(BufferKind::positions);
    case ArgumentSource::sequence_ids:
      return bufferOfKind(BufferKind::sequence_ids);
    case ArgumentSource::logit_rows:
      return bufferOfKind(BufferKind::logit_rows);
    case ArgumentSource::attention_partials:
      return FlatSymbolRefAttr::get(builder.getContext(), ATTENTION_PARTIALS);
    case ArgumentSource::rope_table:
      return findBuffer([&](BufferOp buffer) {
        std::optional<RopeAttr> rope = buffer.getRope();
        return rope && rope->getDim() == argument.dim &&
               rope->getTheta().getValueAsDouble() == argument.theta;
      });
    }
    llvm_unreachable("every source is above");
  }

  FlatSymbolRefAttr bufferOfKind(BufferKind kind) {
    return findBuffer([&](BufferOp buffer) { return buffer.getKind() == kind; });
  }
  FlatSymbolRefAttr findBuffer(llvm::function_ref<bool(BufferOp)> matches) {
    for (BufferOp buffer : model.getBody().getOps<BufferOp>()) {
      if (matches(buffer)) {
        return FlatSymbolRefAttr::get(buffer.getSymNameAttr());
      }
    }
    return nullptr;
  }

  ModelOp model;
  const KernelForms &forms;
  OpBuilder kernelBuilder, builder;
  llvm::DenseMap<Value, FlatSymbolRefAttr> ofValue, ofPlan;
  llvm::MapVector<std::pair<StringAttr, DictionaryAttr>, FlatSymbolRefAttr> kernels;
};

class ToKernels : public impl::SmeltToKernelsBase<ToKernels> {
  void runOnOperation() override {
    ModelOp model = getOperation();
    ForwardOp forward = model.getForward();
    if (!forward) {
      return;
    }
    FailureOr<KernelForms> forms = kernelForms(forward);
    if (failed(forms) || failed(ProgramBuilder(model, *forms).run())) {
      return signalPassFailure();
    }
    forward.erase();
  }
};

} // namespace
} // namespace mlir::smelt
