// The kernels of short steps, which smelt-merge-short-step makes of several fused ops.
#include "dialect/Transforms/FormBuilder.h"

namespace mlir::smelt {

LogicalResult FormBuilder::normQkvRope() {
  auto norms = all<RmsNormOp>();
  auto linears = all<LinearOp>();
  auto ropes = all<RopeOp>();
  bool shaped = linears.size() == 3 && ropes.size() == 2 && (norms.size() == 1 || norms.size() == 3) &&
                llvm::all_of(linears, [&](LinearOp op) { return op.getInput() == norms[0].getResult(); });
  if (!shaped) {
    return mismatch("a smelt.rms_norm, three smelt.linear of it, and the rotation of the first two");
  }
  RopeOp query = ropes[0], key = ropes[1];
  int64_t headDim = width(query.getInput()) / query.getHeads();
  FailureOr<int64_t> qkNorm = qkNormOf(ArrayRef(norms).drop_front(), headDim);
  if (failed(qkNorm)) {
    return failure();
  }
  bool bias = linears[0].getBiasAttr() != nullptr;
  param("in", width(norms[0].getInput()));
  param("query_heads", query.getHeads());
  param("kv_heads", key.getHeads());
  param("head_dim", headDim);
  param("qk_norm", *qkNorm);
  param("bias", bias);
  dtype(linears[0].getWeightAttr());
  kvLayout();
  operand(norms[0].getInput());
  weight(norms[0].getWeightAttr());
  for (LinearOp linear : linears) {
    weight(linear.getWeightAttr());
  }
  for (LinearOp linear : linears) {
    if (bias) {
      weight(linear.getBiasAttr());
    }
  }
  for (size_t i = 1; i < norms.size(); ++i) {
    weight(norms[i].getWeightAttr());
  }
  rotation(query, headDim);
  if (failed(result({query.getResult()}))) {
    return failure();
  }
  for (auto [source, value] : {std::pair(ArgumentSource::k_cache, key.getResult()),
                               std::pair(ArgumentSource::v_cache, linears[2].getResult())}) {
    auto yielded = fused.getYield().getValues();
    auto found = llvm::find(yielded, Value(value));
    if (found == yielded.end()) {
      return mismatch("the rotated key and the value, yielded");
    }
    cache(source, fused.getResult(found.getIndex()));
  }
  immediate(norms[0].getEps());
  immediate(*qkNorm ? norms[1].getEps() : llvm::APFloat(0.0f));
  return success();
}

LogicalResult FormBuilder::normRoute() {
  auto norm = single<RmsNormOp>();
  auto route = single<RouteOp>();
  auto shared = single<SwigluOp>();
  auto linears = all<LinearOp>();
  auto router = route ? route.getLogits().getDefiningOp<LinearOp>() : LinearOp();
  auto gate = shared ? shared.getGate().getDefiningOp<LinearOp>() : LinearOp();
  auto up = shared ? shared.getUp().getDefiningOp<LinearOp>() : LinearOp();
  bool shaped =
      norm && router && (!shared || (gate && up)) && linears.size() == (shared ? 3 : 1) &&
      llvm::all_of(linears, [&](LinearOp op) { return !op.getBias() && op.getInput() == norm.getResult(); });
  if (!shaped) {
    return mismatch(
        "a smelt.rms_norm, the router's smelt.linear without bias, and its smelt.route; and gate, "
        "up and smelt.swiglu of the shared experts, if there are any");
  }
  param("in", width(norm.getInput()));
  param("experts", width(route.getLogits()));
  param("top_k", route.getTopK());
  param("router", static_cast<int64_t>(route.getRouter()));
  param("renormalize", route.getRenormalize());
  dtype(router.getWeightAttr());
  operand(norm.getInput());
  weight(norm.getWeightAttr());
  weight(router.getWeightAttr());
  if (shared) {
    param("shared", width(shared.getResult()));
    weight(gate.getWeightAttr());
    weight(up.getWeightAttr());
  }
  immediate(norm.getEps());
  if (failed(result({norm.getResult()})) || failed(result({route.getIndices()})) ||
      failed(result({route.getWeights()}))) {
    return failure();
  }
  return shared ? result({shared.getResult()}) : success();
}

LogicalResult FormBuilder::expertsGateUpDirect() {
  auto linears = all<ExpertLinearOp>();
  auto swiglu = single<SwigluOp>();
  if (linears.size() != 2 || !swiglu || swiglu.getGate() != linears[0].getResult() ||
      swiglu.getUp() != linears[1].getResult() || linears[0].getInput() != linears[1].getInput() ||
      linears[0].getIndices() != linears[1].getIndices()) {
    return mismatch("gate and up smelt.expert_linear of one row a token, and their smelt.swiglu");
  }
  auto down = all<LinearOp>();
  auto write = single<ResidualAddOp>();
  if (down.empty()
          ? bool(write)
          : down.size() != 1 || !write || down[0].getBias() || write.getUpdate() != down[0].getResult()) {
    return mismatch(
        "of shared experts one smelt.linear without bias and the smelt.residual_add of its result");
  }
  expertParams(linears[0], width(linears[0].getInput()), width(swiglu.getResult()));
  operand(linears[0].getInput());
  operand(linears[0].getIndices());
  weight(linears[0].getWeightAttr());
  weight(linears[1].getWeightAttr());
  if (failed(result({swiglu.getResult()}))) {
    return failure();
  }
  if (!write) {
    return success();
  }
  param("shared", width(down[0].getInput()));
  operand(down[0].getInput());
  weight(down[0].getWeightAttr());
  operand(write.getInput());
  immediate(write.getScale());
  return result({write.getResult()});
}

LogicalResult FormBuilder::expertsDownResidual() {
  auto down = single<ExpertLinearOp>();
  auto combine = single<CombineOp>();
  auto write = single<ResidualAddOp>();
  if (!down || !combine || !write || combine.getRows() != down.getResult() ||
      write.getUpdate() != combine.getResult()) {
    return mismatch(
        "a smelt.expert_linear, the smelt.combine of its rows and the smelt.residual_add of that");
  }
  expertParams(down, width(down.getResult()), width(down.getInput()));
  operand(down.getInput());
  operand(down.getIndices());
  operand(combine.getWeights());
  weight(down.getWeightAttr());
  operand(write.getInput());
  immediate(write.getScale());
  return result({write.getResult()});
}

} // namespace mlir::smelt
