#include "dialect/Transforms/FormBuilder.h"

#include "llvm/ADT/StringSwitch.h"

namespace mlir::smelt {

FailureOr<KernelForm> FormBuilder::build() {
  using Method = LogicalResult (FormBuilder::*)();
  auto method = llvm::StringSwitch<Method>(form.role)
                    .Case("embed", &FormBuilder::embed)
                    .Case("norm_linear", &FormBuilder::normLinear)
                    .Case("rope_append", &FormBuilder::ropeAppend)
                    .Case("attention", &FormBuilder::attention)
                    .Case("linear_residual", &FormBuilder::linearResidual)
                    .Case("route", &FormBuilder::route)
                    .Case("experts_gate_up", &FormBuilder::expertsGateUp)
                    .Case("experts_down", &FormBuilder::expertsDown)
                    .Case("combine_residual", &FormBuilder::combineResidual)
                    .Case("gate_up", &FormBuilder::gateUp)
                    .Case("norm_qkv_rope", &FormBuilder::normQkvRope)
                    .Case("norm_route", &FormBuilder::normRoute)
                    .Case("experts_gate_up_direct", &FormBuilder::expertsGateUpDirect)
                    .Case("experts_down_residual", &FormBuilder::expertsDownResidual)
                    .Default(nullptr);
  if (!method) {
    return fused.emitOpError("has the role '") << form.role << "', which no kernel has";
  }
  if (failed((this->*method)())) {
    return failure();
  }
  form.params = builder.getDictionaryAttr(params);
  std::string error;
  std::optional<KernelSignature> signature = kernelSignature(form.role, form.params, error);
  if (!signature) {
    return fused.emitOpError("is no kernel: ") << error;
  }
  form.signature = std::move(*signature);
  assert(form.signature.arguments.size() == form.arguments.size() && "form and signature disagree");
  for (OpResult result : fused.getResults()) {
    bool covered = llvm::any_of(form.arguments, [&](const FormArgument &argument) {
      return llvm::is_contained(argument.values, Value(result));
    });
    if (!covered) {
      return fused.emitOpError("of role '") << form.role << "' yields as result #" << result.getResultNumber()
                                            << " a value that its kernel does not write";
    }
  }
  return std::move(form);
}

LogicalResult FormBuilder::embed() {
  auto op = single<EmbedOp>();
  if (!op) {
    return mismatch("one smelt.embed");
  }
  WeightOp table = weightOp(op.getWeightAttr());
  param("hidden", table.getType().getDimSize(1));
  param("vocab", table.getType().getDimSize(0));
  dtype(op.getWeightAttr());
  add(ArgumentSource::token_ids);
  weight(op.getWeightAttr());
  return result({op.getResult()});
}

LogicalResult FormBuilder::normLinear() {
  auto norms = all<RmsNormOp>();
  SmallVector<Operation *> projections;
  for (Operation &op : body.without_terminator()) {
    if (isa<LinearOp, LmHeadOp>(op)) {
      projections.push_back(&op);
    }
  }
  bool gather = !all<LmHeadOp>().empty();
  if (norms.size() > 1 || projections.empty() || projections.size() > 3 ||
      (gather && projections.size() > 1)) {
    return mismatch("at most one smelt.rms_norm, then one to three smelt.linear or one smelt.lm_head");
  }
  RmsNormOp norm = norms.empty() ? RmsNormOp() : norms.front();
  Value input = norm ? norm.getInput() : projections[0]->getOperand(0);
  bool emit = norm && isYielded(norm.getResult());

  SmallVector<FlatSymbolRefAttr> weights, biases;
  SmallVector<Value> outs;
  for (Operation *op : projections) {
    weights.push_back(op->getAttrOfType<FlatSymbolRefAttr>("weight"));
    if (auto linear = dyn_cast<LinearOp>(op); linear && linear.getBiasAttr()) {
      biases.push_back(linear.getBiasAttr());
    }
    outs.push_back(op->getResult(0));
  }
  if (!biases.empty() && biases.size() != projections.size()) {
    return mismatch("a bias for all projections or for none");
  }

  param("in", width(input));
  param("outs", outs.size());
  const char *names[] = {"out0", "out1", "out2"};
  for (size_t i = 0; i < 3; ++i) {
    param(names[i], i < outs.size() ? width(outs[i]) : 0);
  }
  param("norm", norm ? 1 : 0);
  param("emit_norm", emit);
  param("gather", gather);
  param("bias", !biases.empty());
  dtype(weights[0]);
  operand(input);
  if (norm) {
    weight(norm.getWeightAttr());
  }
  if (gather) {
    add(ArgumentSource::logit_rows);
  }
  if (emit && failed(result({norm.getResult()}))) {
    return failure();
  }
  llvm::for_each(weights, [&](FlatSymbolRefAttr symbol) { weight(symbol); });
  llvm::for_each(biases, [&](FlatSymbolRefAttr symbol) { weight(symbol); });
  immediate(norm ? norm.getEps() : llvm::APFloat(0.0f));
  return result(outs);
}

FailureOr<int64_t> FormBuilder::qkNormOf(ArrayRef<RmsNormOp> norms, int64_t headDim) {
  if (norms.empty()) {
    return 0;
  }
  RmsNormOp query = norms[0], key = norms[1];
  bool perHead = query.groupWidth() == headDim && key.groupWidth() == headDim;
  bool fullWidth = !query.getHeads() && !key.getHeads();
  if (query.getEps() != key.getEps() || (!perHead && !fullWidth)) {
    return mismatch("query and key normalised alike, per head or over the whole width");
  }
  return perHead ? 1 : 2;
}

LogicalResult FormBuilder::ropeAppend() {
  auto ropes = all<RopeOp>();
  auto norms = all<RmsNormOp>();
  auto yielded = fused.getYield().getValues();
  bool shaped = ropes.size() == 2 && (norms.empty() || norms.size() == 2) && yielded.size() == 3 &&
                yielded[0] == ropes[0].getResult() && yielded[1] == ropes[1].getResult() &&
                isa<BlockArgument>(yielded[2]);
  if (!shaped) {
    return mismatch("the rotation of query and key, both or neither normalised, yielded with the value");
  }
  RopeOp query = ropes[0], key = ropes[1];
  int64_t headDim = width(query.getInput()) / query.getHeads();
  if (query.getTheta() != key.getTheta() || width(key.getInput()) / key.getHeads() != headDim) {
    return mismatch("one theta and head size for query and key");
  }
  FailureOr<int64_t> chosen = qkNormOf(norms, headDim);
  if (failed(chosen)) {
    return failure();
  }
  int64_t qkNorm = *chosen;
  param("query_heads", query.getHeads());
  param("kv_heads", key.getHeads());
  param("head_dim", headDim);
  param("qk_norm", qkNorm);
  if (qkNorm) {
    dtype(norms[0].getWeightAttr());
  } else {
    param("dtype", 0); // no weights: one kernel serves both types
  }

  kvLayout();

  Value queryInput = qkNorm ? norms[0].getInput() : query.getInput();
  Value keyInput = qkNorm ? norms[1].getInput() : key.getInput();
  operands({queryInput, keyInput, yielded[2]});
  rotation(query, headDim);
  if (qkNorm) {
    weight(norms[0].getWeightAttr());
    weight(norms[1].getWeightAttr());
  }
  if (failed(result({query.getResult()}))) {
    return failure();
  }
  cache(ArgumentSource::k_cache, fused.getResult(1));
  cache(ArgumentSource::v_cache, fused.getResult(2));
  immediate(qkNorm ? norms[0].getEps() : llvm::APFloat(0.0f));
  return success();
}

LogicalResult FormBuilder::attention() {
  auto op = single<AttentionOp>();
  if (!op) {
    return mismatch("one smelt.attention");
  }
  param("query_heads", op.getQueryHeads());
  param("kv_heads", op.getKvHeads());
  param("head_dim", op.getHeadDim());
  kvLayout();
  operand(op.getQuery());
  add(ArgumentSource::positions);
  add(ArgumentSource::sequence_ids);
  cache(ArgumentSource::k_cache, outer(op.getKey()));
  cache(ArgumentSource::v_cache, outer(op.getValue()));
  if (failed(result({op.getResult()}))) {
    return failure();
  }
  if (fused->getParentOfType<ModelOp>().kvLayout() != KvLayout::rows_bf16) {
    add(ArgumentSource::attention_partials);
  }
  return success();
}

LogicalResult FormBuilder::linearResidual() {
  auto linear = single<LinearOp>();
  auto write = single<ResidualAddOp>();
  if (!linear || !write || linear.getBias() || write.getUpdate() != linear.getResult()) {
    return mismatch("one smelt.linear without bias and the smelt.residual_add of its result");
  }
  param("in", width(linear.getInput()));
  param("out", width(linear.getResult()));
  dtype(linear.getWeightAttr());
  operand(linear.getInput());
  weight(linear.getWeightAttr());
  operand(write.getInput());
  immediate(write.getScale());
  return result({write.getResult()});
}

LogicalResult FormBuilder::route() {
  auto op = single<RouteOp>();
  if (!op) {
    return mismatch("one smelt.route");
  }
  param("experts", width(op.getLogits()));
  param("top_k", op.getTopK());
  param("router", static_cast<int64_t>(op.getRouter()));
  param("renormalize", op.getRenormalize());
  operand(op.getLogits());
  return failure(failed(result({op.getIndices()})) || failed(result({op.getWeights()})));
}

LogicalResult FormBuilder::expertsGateUp() {
  auto linears = all<ExpertLinearOp>();
  auto swiglu = single<SwigluOp>();
  if (linears.size() != 2 || !swiglu || swiglu.getGate() != linears[0].getResult() ||
      swiglu.getUp() != linears[1].getResult() || linears[0].getInput() != linears[1].getInput() ||
      linears[0].getIndices() != linears[1].getIndices() || !isActivation(linears[0].getInput().getType())) {
    return mismatch("gate and up smelt.expert_linear of one row a token, and their smelt.swiglu");
  }
  expertParams(linears[0], width(linears[0].getInput()), width(swiglu.getResult()));
  operand(linears[0].getInput());
  plan(outer(linears[0].getIndices()));
  weight(linears[0].getWeightAttr());
  weight(linears[1].getWeightAttr());
  return result({swiglu.getResult()});
}

LogicalResult FormBuilder::expertsDown() {
  auto op = single<ExpertLinearOp>();
  if (!op || !isExpertRows(op.getInput().getType())) {
    return mismatch("one smelt.expert_linear of a row for each expert");
  }
  expertParams(op, width(op.getResult()), width(op.getInput()));
  operand(op.getInput());
  plan(outer(op.getIndices()));
  weight(op.getWeightAttr());
  return result({op.getResult()});
}

LogicalResult FormBuilder::combineResidual() {
  auto combine = single<CombineOp>();
  auto write = single<ResidualAddOp>();
  if (!combine || !write || write.getUpdate() != combine.getResult()) {
    return mismatch("one smelt.combine and the smelt.residual_add of its result");
  }
  // The rows are stored in the order of the plan that the experts followed.
  auto experts = outer(combine.getRows()).getDefiningOp<FusedOp>();
  auto down =
      experts ? llvm::to_vector(experts.getBody().getOps<ExpertLinearOp>()) : SmallVector<ExpertLinearOp>();
  if (!experts || experts.getRole() != "experts_down" || down.size() != 1) {
    return mismatch("rows made by a fused op of role experts_down");
  }
  Value indices = outerOf(experts, down[0].getIndices());
  param("hidden", width(combine.getResult()));
  param("experts", weightOp(down[0].getWeightAttr()).getExperts());
  param("top_k", width(combine.getWeights()));
  operand(combine.getRows());
  plan(indices);
  operand(combine.getWeights());
  operand(write.getInput());
  immediate(write.getScale());
  return result({write.getResult()});
}

LogicalResult FormBuilder::gateUp() {
  auto linears = all<LinearOp>();
  auto norms = all<RmsNormOp>();
  auto swiglu = single<SwigluOp>();
  if (linears.size() != 2 || norms.size() > 1 || !swiglu || swiglu.getGate() != linears[0].getResult() ||
      swiglu.getUp() != linears[1].getResult() || linears[0].getInput() != linears[1].getInput() ||
      linears[0].getBias() || linears[1].getBias()) {
    return mismatch(
        "at most one smelt.rms_norm, gate and up smelt.linear of one input, and their smelt.swiglu");
  }
  RmsNormOp norm = norms.empty() ? RmsNormOp() : norms.front();
  Value input = norm ? norm.getInput() : linears[0].getInput();
  param("in", width(input));
  param("out", width(swiglu.getResult()));
  param("norm", norm ? 1 : 0);
  dtype(linears[0].getWeightAttr());
  operand(input);
  if (norm) {
    weight(norm.getWeightAttr());
  }
  weight(linears[0].getWeightAttr());
  weight(linears[1].getWeightAttr());
  immediate(norm ? norm.getEps() : llvm::APFloat(0.0f));
  return result({swiglu.getResult()});
}

FailureOr<KernelForm> kernelForm(FusedOp fused) { return FormBuilder(fused).build(); }

KernelForm moePlanForm(const KernelForm &route) {
  Builder builder(route.params.getContext());
  KernelForm form;
  form.role = "moe_plan";
  form.params = builder.getDictionaryAttr(
      {NamedAttribute(builder.getStringAttr("experts"), route.params.get("experts")),
       NamedAttribute(builder.getStringAttr("top_k"), route.params.get("top_k"))});
  std::string error;
  form.signature = *kernelSignature(form.role, form.params, error);
  form.arguments.resize(2);
  form.arguments[0].values = form.arguments[1].values = route.arguments[1].values;
  form.arguments[1].source = ArgumentSource::plan;
  return form;
}

} // namespace mlir::smelt
