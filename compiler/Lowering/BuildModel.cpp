#include "compiler/Lowering/BuildModel.h"

#include "compiler/Budget/Budget.h"
#include "compiler/Lowering/BuildLayer.h"
#include "compiler/Spec/SpecWriter.h"
#include "compiler/Spec/WeightTable.h"
#include "dialect/IR/SmeltOps.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mlir::smelt;

namespace smelt::lowering {

std::string weightSymbol(int64_t segment, const char *role) {
  return segment < 0 ? std::string(role) : "s" + std::to_string(segment) + "." + role;
}

static void declareWeights(ImplicitLocOpBuilder &builder, const spec::ModelSpec &model, DType dtype) {
  for (const spec::WeightDecl &decl : spec::weightTable(model)) {
    Type element = dtype == DType::f32 ? Type(builder.getF32Type()) : Type(builder.getBF16Type());
    if (dtype == DType::i8 && spec::isQuantized(decl.role)) {
      element = builder.getI8Type();
    }
    auto type = TypeAttr::get(RankedTensorType::get(decl.shape, element));
    int64_t end = decl.layers ? decl.first_layer + decl.layers : 0;
    WeightOp::create(builder, weightSymbol(decl.segment, spec::weightRoleName(decl.role)), type, decl.name,
                     decl.layers ? decl.first_layer : 0, end, decl.experts);
  }
}

static Value buildSegment(ImplicitLocOpBuilder &builder, const spec::ModelSpec &model, size_t index,
                          Value x) {
  const spec::Segment &segment = model.segments[index];
  int64_t first = model.firstLayer(index);
  auto order = segment.order == spec::VisitOrder::block ? VisitOrder::block : VisitOrder::layer;
  auto op = SegmentOp::create(builder, x, first, first + segment.layers, segment.visits, order,
                              KvPolicy::per_visit, model.firstKvSlot(index));
  OpBuilder::InsertionGuard guard(builder);
  Block &body = op.getBody().emplaceBlock();
  Value argument = body.addArgument(x.getType(), builder.getLoc());
  builder.setInsertionPointToStart(&body);
  YieldOp::create(builder, buildLayer(builder, model, index, argument));
  return op.getResult();
}

static void buildForward(ImplicitLocOpBuilder &builder, const spec::ModelSpec &model) {
  auto forward = ForwardOp::create(builder);
  Block &body = forward.getBody().emplaceBlock();
  Value tokens = body.addArgument(tokensType(builder.getContext()), builder.getLoc());
  builder.setInsertionPointToStart(&body);

  Type residual = activationType(builder.getContext(), model.hidden_size);
  Value x = EmbedOp::create(builder, residual, tokens, "embedding");
  for (size_t i = 0; i < model.segments.size(); ++i) {
    x = buildSegment(builder, model, i, x);
  }
  Value normed =
      RmsNormOp::create(builder, x, "final_norm", llvm::APFloat(static_cast<float>(model.norm_eps)), nullptr);
  Type logits = activationType(builder.getContext(), model.vocab_size);
  ReturnOp::create(builder,
                   LmHeadOp::create(builder, logits, normed, model.tie_embeddings ? "embedding" : "lm_head"));
}

// Every field of the budget the artifact reports, as 64-bit integers.
static DictionaryAttr budgetAttributes(Builder &builder, const spec::ModelSpec &model) {
  NamedAttrList attributes;
  if (budget::BudgetResult result = budget::computeBudget(model)) {
    for (auto [name, value] : budget::fields(*result.budget)) {
      attributes.set(StringRef(name), builder.getI64IntegerAttr(value));
    }
  }
  return attributes.getDictionary(builder.getContext());
}

OwningOpRef<ModuleOp> buildModel(MLIRContext &context, const spec::ModelSpec &model, DType weights,
                                 DType kv_cache) {
  context.loadDialect<SmeltDialect>();
  ImplicitLocOpBuilder builder(NameLoc::get(StringAttr::get(&context, model.name)), &context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getLoc());
  builder.setInsertionPointToStart(module->getBody());
  auto op = ModelOp::create(builder, model.name, model.vocab_size, model.hidden_size);
  op.setSpec(spec::writeSpec(model));
  op.setBudgetsAttr(budgetAttributes(builder, model));
  if (kv_cache == DType::bf16) {
    op.setKvDtype("bf16");
  }
  builder.setInsertionPointToStart(&op.getBody().front());
  declareWeights(builder, model, weights);
  buildForward(builder, model);
  return module;
}

} // namespace smelt::lowering
