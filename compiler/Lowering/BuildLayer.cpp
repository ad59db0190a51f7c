#include "compiler/Lowering/BuildLayer.h"

#include "compiler/Lowering/BuildModel.h"
#include "compiler/Spec/WeightTable.h"
#include "dialect/IR/SmeltOps.h"

using namespace mlir;
using namespace mlir::smelt;

namespace smelt::lowering {
namespace {

using spec::WeightRole;

class LayerBuilder {
public:
  LayerBuilder(ImplicitLocOpBuilder &builder, const spec::ModelSpec &model, size_t segment)
      : builder(builder), model(model), segment(model.segments[segment]), index(segment) {}

  Value build(Value x) {
    x = addAttention(x);
    return segment.ffn == spec::FfnKind::moe ? addMoe(x) : addMlp(x);
  }

private:
  Value addAttention(Value x) {
    const spec::Attention &geometry = segment.attention;
    Value normed = norm(x, WeightRole::attention_norm);
    Value query = project(normed, WeightRole::q_proj, WeightRole::q_bias, geometry.queryWidth());
    Value key = project(normed, WeightRole::k_proj, WeightRole::k_bias, geometry.kvWidth());
    Value value = project(normed, WeightRole::v_proj, WeightRole::v_bias, geometry.kvWidth());
    query = rotate(query, WeightRole::q_norm, geometry.query_heads);
    key = rotate(key, WeightRole::k_norm, geometry.kv_heads);
    Value attended = AttentionOp::create(builder, query, key, value, geometry.query_heads, geometry.kv_heads,
                                         geometry.head_dim);
    return addResidual(x, linear(attended, WeightRole::o_proj, model.hidden_size));
  }

  Value project(Value normed, WeightRole weight, WeightRole bias, int64_t width) {
    auto biasSymbol = FlatSymbolRefAttr::get(builder.getContext(), symbol(bias));
    return LinearOp::create(builder, activation(width), normed, symbol(weight),
                            segment.attention.qkv_bias ? biasSymbol : nullptr);
  }

  // The normalisation of queries or keys, when the spec has one, then the rotation.
  Value rotate(Value projected, WeightRole weight, int64_t heads) {
    if (segment.attention.qk_norm == spec::QkNorm::per_head) {
      projected =
          RmsNormOp::create(builder, projected, symbol(weight), eps(), builder.getI64IntegerAttr(heads));
    } else if (segment.attention.qk_norm == spec::QkNorm::full_width) {
      projected = norm(projected, weight);
    }
    return RopeOp::create(builder, projected, heads, llvm::APFloat(segment.attention.rope_theta));
  }

  Value addMlp(Value x) {
    Value normed = norm(x, WeightRole::ffn_norm);
    return addSwiglu(x, normed, WeightRole::mlp_gate, WeightRole::mlp_up, WeightRole::mlp_down,
                     model.mlp->hidden_size);
  }

  Value addMoe(Value x) {
    const spec::Moe &moe = *model.moe;
    MLIRContext *context = builder.getContext();
    Value normed = norm(x, WeightRole::ffn_norm);
    Value logits = linear(normed, WeightRole::router, moe.experts);
    auto router = moe.router == spec::RouterKind::softmax ? RouterKind::softmax : RouterKind::sigmoid;
    auto route = RouteOp::create(builder, expertIndicesType(context, moe.top_k), activation(moe.top_k),
                                 logits, moe.top_k, router, moe.renormalize);

    auto expertLinear = [&](Value input, WeightRole weight, int64_t width) -> Value {
      return ExpertLinearOp::create(builder, expertRowsType(context, moe.top_k, width), input,
                                    route.getIndices(), symbol(weight));
    };
    Value gate = expertLinear(normed, WeightRole::expert_gate, moe.expert_hidden_size);
    Value up = expertLinear(normed, WeightRole::expert_up, moe.expert_hidden_size);
    Value hidden = SwigluOp::create(builder, gate, up);
    Value rows = expertLinear(hidden, WeightRole::expert_down, model.hidden_size);
    x = addResidual(x, CombineOp::create(builder, activation(model.hidden_size), rows, route.getWeights()));
    if (moe.shared_experts > 0) {
      // x + s * (routed + shared) as two residual writes: each is the end of one kernel.
      x = addSwiglu(x, normed, WeightRole::shared_gate, WeightRole::shared_up, WeightRole::shared_down,
                    moe.sharedWidth());
    }
    return x;
  }

  Value addSwiglu(Value x, Value normed, WeightRole gateRole, WeightRole upRole, WeightRole downRole,
                  int64_t width) {
    Value gate = linear(normed, gateRole, width);
    Value up = linear(normed, upRole, width);
    Value hidden = SwigluOp::create(builder, gate, up);
    return addResidual(x, linear(hidden, downRole, model.hidden_size));
  }

  Value addResidual(Value x, Value update) {
    return ResidualAddOp::create(builder, x, update,
                                 llvm::APFloat(static_cast<float>(segment.residual_scale)));
  }

  Value norm(Value x, WeightRole weight) {
    return RmsNormOp::create(builder, x, symbol(weight), eps(), nullptr);
  }

  Value linear(Value input, WeightRole weight, int64_t width) {
    return LinearOp::create(builder, activation(width), input, symbol(weight), nullptr);
  }

  llvm::APFloat eps() const { return llvm::APFloat(static_cast<float>(model.norm_eps)); }
  RankedTensorType activation(int64_t width) { return activationType(builder.getContext(), width); }
  std::string symbol(WeightRole role) const {
    return weightSymbol(static_cast<int64_t>(index), spec::weightRoleName(role));
  }

  ImplicitLocOpBuilder &builder;
  const spec::ModelSpec &model;
  const spec::Segment &segment;
  size_t index;
};

} // namespace

Value buildLayer(ImplicitLocOpBuilder &builder, const spec::ModelSpec &model, size_t segment, Value x) {
  return LayerBuilder(builder, model, segment).build(x);
}

} // namespace smelt::lowering
