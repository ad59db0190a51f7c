// Reads the body of one fused op as a kernel. Of KernelForm.cpp (one role an op) and MergedForms.cpp.
#pragma once

#include "dialect/Transforms/KernelForm.h"

#include "mlir/IR/Builders.h"

namespace mlir::smelt {

// Reads the body of one fused op.
class FormBuilder {
public:
  explicit FormBuilder(FusedOp fused)
      : fused(fused), body(fused.getBody().front()), builder(fused.getContext()) {
    form.role = fused.getRole();
  }

  FailureOr<KernelForm> build();

private:
  LogicalResult embed();
  LogicalResult normLinear();
  LogicalResult ropeAppend();
  // How the norms of query and key, or none, are told: 0 none, 1 per head, 2 full width.
  FailureOr<int64_t> qkNormOf(ArrayRef<RmsNormOp> norms, int64_t headDim);
  LogicalResult attention();
  LogicalResult linearResidual();
  LogicalResult route();
  LogicalResult expertsGateUp();
  LogicalResult expertsDown();
  LogicalResult combineResidual();
  LogicalResult gateUp();
  // Kernels of short steps, made by smelt-merge-short-step.
  LogicalResult normQkvRope();
  LogicalResult normRoute();
  LogicalResult expertsGateUpDirect();
  LogicalResult expertsDownResidual();

  //===-- the body
  //---------------------------------------------------------------------------------------===//

  template <typename OpT> SmallVector<OpT> all() { return llvm::to_vector(body.getOps<OpT>()); }
  template <typename OpT> OpT single() {
    SmallVector<OpT> ops = all<OpT>();
    return ops.size() == 1 ? ops.front() : OpT();
  }
  bool isYielded(Value value) { return llvm::is_contained(fused.getYield().getValues(), value); }

  // The operand that an argument of the body stands for; null for other values.
  static Value outerOf(FusedOp op, Value inner) {
    auto argument = dyn_cast<BlockArgument>(inner);
    return argument ? op.getInputs()[argument.getArgNumber()] : Value();
  }
  Value outer(Value inner) { return outerOf(fused, inner); }
  WeightOp weightOp(FlatSymbolRefAttr symbol) {
    return SymbolTable::lookupNearestSymbolFrom<WeightOp>(fused, symbol);
  }

  LogicalResult mismatch(const Twine &expected) {
    return fused.emitOpError("of role '") << form.role << "' needs in its body " << expected;
  }

  //===-- the form
  //---------------------------------------------------------------------------------------===//

  void param(StringRef name, int64_t value) {
    params.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
  }
  // The element type and the layout of the weights, of which this is one.
  void dtype(FlatSymbolRefAttr symbol) {
    WeightOp weight = weightOp(symbol);
    DType type = weightDType(weight);
    param("dtype", type == DType::i8 ? 2 : type == DType::bf16 ? 1 : 0);
    if (weight.getLayout() != WeightLayout::row_major) {
      param("layout", static_cast<int64_t>(weight.getLayout()));
    }
  }
  // How the model's device keeps keys and values.
  void kvLayout() {
    if (fused->getParentOfType<ModelOp>().kvLayout() != KvLayout::blocked_f32) {
      param("kv", static_cast<int64_t>(fused->getParentOfType<ModelOp>().kvLayout()));
    }
  }
  void expertParams(ExpertLinearOp op, int64_t hidden, int64_t expertHidden) {
    param("hidden", hidden);
    param("expert_hidden", expertHidden);
    param("experts", weightOp(op.getWeightAttr()).getExperts());
    param("top_k", op.getIndices().getType().getShape().back());
    dtype(op.getWeightAttr());
  }

  FormArgument &add(ArgumentSource source) {
    form.arguments.emplace_back();
    form.arguments.back().source = source;
    return form.arguments.back();
  }
  void operands(ArrayRef<Value> inner) {
    FormArgument &argument = add(ArgumentSource::values);
    for (Value value : inner) {
      argument.values.push_back(outer(value));
    }
  }
  void operand(Value inner) { operands({inner}); }
  // Results side by side, all of which the kernel writes, so the body has to yield them.
  LogicalResult result(ArrayRef<Value> inner) {
    FormArgument &argument = add(ArgumentSource::values);
    auto yielded = fused.getYield().getValues();
    for (Value value : inner) {
      auto found = llvm::find(yielded, value);
      if (found == yielded.end()) {
        return fused.emitOpError("of role '")
               << form.role << "' does not yield the result of " << value.getDefiningOp()->getName()
               << ", which its kernel writes";
      }
      argument.values.push_back(fused.getResult(found.getIndex()));
    }
    return success();
  }
  void weight(FlatSymbolRefAttr symbol) { add(ArgumentSource::weight).weight = symbol; }
  // What a rotation reads besides its rows.
  void rotation(RopeOp query, int64_t headDim) {
    add(ArgumentSource::positions);
    add(ArgumentSource::sequence_ids);
    FormArgument &table = add(ArgumentSource::rope_table);
    table.theta = query.getTheta().convertToDouble();
    table.dim = headDim;
  }
  void plan(Value indices) { add(ArgumentSource::plan).values.push_back(indices); }
  void cache(ArgumentSource source, Value value) { add(source).values.push_back(value); }
  // A float constant, passed by its bits.
  void immediate(const llvm::APFloat &value) {
    form.immediates.push_back(static_cast<int32_t>(value.bitcastToAPInt().getZExtValue()));
  }

  FusedOp fused;
  Block &body;
  Builder builder;
  KernelForm form;
  SmallVector<NamedAttribute> params;
};

} // namespace mlir::smelt
