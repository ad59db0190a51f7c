#include "dialect/IR/SmeltOps.h"
#include "dialect/Transforms/MemoryPlan.h"
#include "dialect/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::smelt {

#define GEN_PASS_DEF_SMELTPLANMEMORY
#include "dialect/Transforms/Passes.h.inc"

namespace {

// A pair of state buffers for the attention of one geometry.
struct CachePair {
  std::string key, value; // buffer names
  ByteSize slot_size;
  int64_t slots = 0;
};

// Writes a plan into the model: buffers before the forward, names on the ops.
class PlanWriter {
public:
  PlanWriter(ModelOp model, const KernelForms &forms, const MemoryPlan &plan)
      : model(model), builder(model.getForward()), forms(forms), plan(plan) {}

  LogicalResult run() {
    addInputs();
    addRopeTables();
    addCaches();
    addPartials();
    for (const WorkspaceBuffer &buffer : plan.buffers()) {
      addBuffer(buffer.name, BufferKind::workspace, buffer.dtype, buffer.size);
    }
    for (auto &[fused, form] : forms) {
      annotate(fused, form);
    }
    return checkReturn();
  }

private:
  BufferOp addBuffer(StringRef name, BufferKind kind, DType dtype, ByteSize size, IntegerAttr slots = nullptr,
                     RopeAttr rope = nullptr) {
    MLIRContext *context = builder.getContext();
    return BufferOp::create(builder, model.getLoc(), builder.getStringAttr(name),
                            BufferKindAttr::get(context, kind), DTypeAttr::get(context, dtype),
                            size.toAttr(context), slots, rope);
  }

  void addInputs() {
    addBuffer("token_ids", BufferKind::token_ids, DType::i32, {.per_token = 4});
    addBuffer("positions", BufferKind::positions, DType::i32, {.per_token = 4});
    addBuffer("sequence_ids", BufferKind::sequence_ids, DType::i32, {.per_token = 4});
    addBuffer("logit_rows", BufferKind::logit_rows, DType::i32, {.per_logit_row = 4});
    addBuffer("logits", BufferKind::logits, DType::f32, {.per_logit_row = 4 * model.getVocabSize()});
  }

  // One table for each distinct theta and dim; a name repeats with a number when only theta differs.
  void addRopeTables() {
    SmallVector<std::pair<double, int64_t>> tables;
    for (auto &[fused, form] : forms) {
      for (const FormArgument &argument : form.arguments) {
        std::pair<double, int64_t> table(argument.theta, argument.dim);
        if (argument.source != ArgumentSource::rope_table || llvm::is_contained(tables, table)) {
          continue;
        }
        tables.push_back(table);
        size_t same = llvm::count_if(tables, [&](auto other) { return other.second == table.second; });
        std::string name =
            "rope_d" + std::to_string(table.second) + (same > 1 ? "_" + std::to_string(same) : "");
        addBuffer(name, BufferKind::rope_table, DType::f32, {.per_position = 4 * table.second}, nullptr,
                  RopeAttr::get(builder.getContext(), builder.getF64FloatAttr(table.first), table.second));
      }
    }
  }

  // Segments take slots of the caches of their geometry in the order of their kv_base.
  void addCaches() {
    SmallVector<std::pair<SegmentOp, AttentionOp>> users;
    for (SegmentOp segment : model.getForward().getBody().getOps<SegmentOp>()) {
      segment.walk([&](AttentionOp attention) { users.push_back({segment, attention}); });
    }
    llvm::stable_sort(users, [](auto a, auto b) { return a.first.getKvBase() < b.first.getKvBase(); });
    llvm::MapVector<std::pair<int64_t, int64_t>, CachePair> caches;
    for (auto [segment, attention] : users) {
      CachePair &pair = caches[{attention.getKvHeads(), attention.getHeadDim()}];
      std::string geometry =
          "_h" + std::to_string(attention.getKvHeads()) + "_d" + std::to_string(attention.getHeadDim());
      pair.key = "k_cache" + geometry;
      pair.value = "v_cache" + geometry;
      pair.slot_size = kvSlotSize(model.kvLayout(), attention.getKvHeads(), attention.getHeadDim());
      segment->setAttr("slot_base", builder.getI64IntegerAttr(pair.slots));
      pair.slots += segment.executedLayers();
      cachesOf[segment] = {pair.key, pair.value};
    }
    for (auto &[geometry, pair] : caches) {
      for (const std::string &name : {pair.key, pair.value}) {
        addBuffer(name, BufferKind::state, kvElementType(model.kvLayout()), pair.slot_size,
                  builder.getI64IntegerAttr(pair.slots));
      }
    }
  }

  // One buffer for every attention, since nothing of it outlives a call.
  void addPartials() {
    ByteSize size;
    for (auto &[fused, form] : forms) {
      for (auto [argument, described] : llvm::zip(form.arguments, form.signature.arguments)) {
        if (argument.source == ArgumentSource::attention_partials) {
          size.per_position = std::max(size.per_position, described.size.per_position);
          size.per_kv_position = std::max(size.per_kv_position, described.size.per_kv_position);
        }
      }
    }
    if (size != ByteSize()) {
      addBuffer(ATTENTION_PARTIALS, BufferKind::workspace, DType::f32, size);
    }
  }

  void annotate(FusedOp fused, const KernelForm &form) {
    SmallVector<Attribute> names(fused.getNumResults());
    auto setName = [&](Value value, StringRef name) {
      if (value.getDefiningOp() == fused) {
        names[cast<OpResult>(value).getResultNumber()] = FlatSymbolRefAttr::get(fused.getContext(), name);
      }
    };
    for (auto [argument, described] : llvm::zip(form.arguments, form.signature.arguments)) {
      for (Value value : argument.values) {
        switch (argument.source) {
        case ArgumentSource::values:
          setName(value, described.size.per_logit_row ? StringRef("logits") : plan.bufferOf(value));
          break;
        case ArgumentSource::k_cache:
          setName(value, cachesOf[fused->getParentOfType<SegmentOp>()].first);
          break;
        case ArgumentSource::v_cache:
          setName(value, cachesOf[fused->getParentOfType<SegmentOp>()].second);
          break;
        default:
          break;
        }
      }
    }
    fused->setAttr("results_in", builder.getArrayAttr(names));
    if (form.role == "route") {
      Value indices = moePlanForm(form).arguments[1].values[0];
      fused->setAttr("plan_in", FlatSymbolRefAttr::get(fused.getContext(), plan.bufferOfPlan(indices)));
    }
  }

  // The runtime reads logits where the head kernel leaves them.
  LogicalResult checkReturn() {
    auto returned = cast<ReturnOp>(model.getForward().getBody().front().getTerminator());
    auto head = returned.getLogits().getDefiningOp<FusedOp>();
    auto gathers = [](const FormArgument &argument) { return argument.source == ArgumentSource::logit_rows; };
    if (!head || !llvm::any_of(forms.find(head)->second.arguments, gathers)) {
      return returned.emitOpError("must return the result of a smelt.lm_head");
    }
    return success();
  }

  ModelOp model;
  OpBuilder builder;
  const KernelForms &forms;
  const MemoryPlan &plan;
  llvm::DenseMap<Operation *, std::pair<std::string, std::string>> cachesOf;
};

class PlanMemory : public impl::SmeltPlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    ModelOp model = getOperation();
    ForwardOp forward = model.getForward();
    if (!forward) {
      return;
    }
    if (!model.getBody().getOps<BufferOp>().empty()) {
      model.emitOpError("has buffers already; smelt-plan-memory runs once");
      return signalPassFailure();
    }
    FailureOr<KernelForms> forms = kernelForms(forward);
    FailureOr<MemoryPlan> plan =
        failed(forms) ? FailureOr<MemoryPlan>() : MemoryPlan::compute(forward, *forms);
    if (failed(plan) || failed(PlanWriter(model, *forms, *plan).run())) {
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace mlir::smelt
