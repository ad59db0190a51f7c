#include "dialect/IR/KernelRoles.h"

#include "runtime/include/smelt/artifact.h"

using namespace mlir;
using namespace mlir::smelt;

namespace {

// The largest dimension a parameter may have, as large as a spec allows: bytes of a matrix stay within 64
// bits.
constexpr int64_t MAX_DIMENSION = 1 << 24;

RoleParameter dimension(const char *name, const char *prefix) { return {name, 1, MAX_DIMENSION, prefix}; }
RoleParameter flag(const char *name, const char *absent, const char *present) {
  return {name, 0, 1, "", {absent, present}};
}
RoleParameter qkNorm() { return {"qk_norm", 0, 2, "", {"", "headnorm", "fullnorm"}}; }
// How the keys and values lie in their slots: KvLayout.
RoleParameter kvLayout() { return {"kv", 0, 2, "", {"", "kvrows", "kvbf16"}, /*optional=*/true}; }
RoleParameter weightType() { return {"dtype", 0, 1, "", {"f32", "bf16"}}; }
// The same for roles that multiply with matrices, which may have 8 bits.
RoleParameter matrixType() { return {"dtype", 0, 2, "", {"f32", "bf16", "i8"}}; }
// Width of the shared experts, where a kernel of short steps does a part of theirs besides.
RoleParameter sharedWidth() { return {"shared", 0, MAX_DIMENSION, "s", {}, /*optional=*/true}; }
// How the matrices that a kernel reads lie in memory: WeightLayout.
RoleParameter matrixLayout() { return {"layout", 0, 1, "", {"", "panel16"}, /*optional=*/true}; }

constexpr int64_t F32_BYTES = 4;
constexpr int64_t I32_BYTES = 4;

ByteSize perToken(int64_t bytes) { return {.per_token = bytes}; }
ByteSize perRow(int64_t bytes) { return {.per_logit_row = bytes}; }

} // namespace

// Writes a signature down argument by argument, in the order of the role.
class mlir::smelt::SignatureBuilder {
public:
  void buffer(const char *name, KernelAccess access, DType dtype, ByteSize size) {
    result.arguments.push_back({name, BindingKind::buffer, access, dtype, size});
  }
  void in(const char *name, int64_t width) {
    buffer(name, KernelAccess::read, DType::f32, perToken(F32_BYTES * width));
  }
  void out(const char *name, int64_t width) {
    buffer(name, KernelAccess::write, DType::f32, perToken(F32_BYTES * width));
  }
  void indices(const char *name) { buffer(name, KernelAccess::read, DType::i32, perToken(I32_BYTES)); }
  void cache(const char *name, KernelAccess access, KvLayout layout, int64_t kvHeads, int64_t headDim) {
    result.arguments.push_back(
        {name, BindingKind::state_slot, access, kvElementType(layout), kvSlotSize(layout, kvHeads, headDim)});
  }
  void caches(const RoleValues &p, KernelAccess access) {
    for (const char *name : {"k_cache", "v_cache"}) {
      cache(name, access, static_cast<KvLayout>(p["kv"]), p["kv_heads"], p["head_dim"]);
    }
  }
  // A vector, as the file has it.
  void weight(const char *name, DType dtype, int64_t elements) {
    result.arguments.push_back({name,
                                BindingKind::weight,
                                KernelAccess::read,
                                dtype,
                                {.bytes = weightBytes(WeightLayout::row_major, dtype, elements)}});
  }
  // A matrix [rows][columns] in the layout of the role's parameters.
  void matrix(const char *name, const RoleValues &p, int64_t rows, int64_t columns) {
    result.arguments.push_back(matrixArgument(name, BindingKind::weight, p, rows, columns));
  }
  // One such matrix for each expert.
  void matrices(const char *name, const RoleValues &p, int64_t rows, int64_t columns) {
    KernelArgument argument = matrixArgument(name, BindingKind::weight_table, p, rows, columns);
    argument.experts = p["experts"];
    result.arguments.push_back(argument);
  }
  void constant(const char *name, ConstantKind kind) { result.constants.push_back({name, kind}); }
  void tokens() { constant("tokens", ConstantKind::token_count); }
  void flops(int64_t perRow, int64_t rowsPerToken = 1) {
    result.flops_per_row = perRow;
    result.rows_per_token = rowsPerToken;
  }

  KernelSignature result;

private:
  static KernelArgument matrixArgument(const char *name, BindingKind kind, const RoleValues &p, int64_t rows,
                                       int64_t columns) {
    KernelArgument argument{name,
                            kind,
                            KernelAccess::read,
                            p.dtype(),
                            {.bytes = weightBytes(p.layout(), p.dtype(), {rows, columns})}};
    argument.layout = p.layout();
    return argument;
  }
};

namespace {

std::string fine(const RoleValues &) { return {}; }

// The plan of a step's routing: offsets[E+1], active_count[1], active[E], slot_token[T*k], slot_of[T*k].
ByteSize planSize(const RoleValues &p) {
  return {.bytes = I32_BYTES * (2 * p["experts"] + 2), .per_token = 2 * I32_BYTES * p["top_k"]};
}

void embed(const RoleValues &p, SignatureBuilder &b) {
  b.indices("token_ids");
  b.matrix("weight", p, p["vocab"], p["hidden"]);
  b.out("out", p["hidden"]);
  b.tokens();
}

std::string checkNormLinear(const RoleValues &p) {
  const char *outs[] = {"out0", "out1", "out2"};
  for (int64_t i = 0; i < 3; ++i) {
    if ((i < p["outs"]) != (p[outs[i]] > 0)) {
      return "outs = " + std::to_string(p["outs"]) + " but " + outs[i] + " = " + std::to_string(p[outs[i]]);
    }
  }
  if (p["emit_norm"] && !p["norm"]) {
    return "emit_norm = 1 needs norm = 1";
  }
  if (p["emit_norm"] && p["gather"]) {
    return "emit_norm = 1 and gather = 1 exclude each other";
  }
  return {};
}

void normLinear(const RoleValues &p, SignatureBuilder &b) {
  int64_t out = p["out0"] + p["out1"] + p["out2"];
  const int64_t widths[] = {p["out0"], p["out1"], p["out2"]};
  const char *weights[] = {"weight0", "weight1", "weight2"};
  const char *biases[] = {"bias0", "bias1", "bias2"};
  b.in("x", p["in"]);
  if (p["norm"]) {
    b.weight("norm_weight", p.vectorType(), p["in"]);
  }
  if (p["gather"]) {
    b.buffer("rows", KernelAccess::read, DType::i32, perRow(I32_BYTES));
  }
  if (p["emit_norm"]) {
    b.out("x_norm", p["in"]);
  }
  for (int64_t i = 0; i < p["outs"]; ++i) {
    b.matrix(weights[i], p, widths[i], p["in"]);
  }
  for (int64_t i = 0; p["bias"] && i < p["outs"]; ++i) {
    b.weight(biases[i], p.vectorType(), widths[i]);
  }
  b.buffer("out", KernelAccess::write, DType::f32,
           p["gather"] ? perRow(F32_BYTES * out) : perToken(F32_BYTES * out));
  b.constant("rows", p["gather"] ? ConstantKind::logit_row_count : ConstantKind::token_count);
  b.constant("eps", ConstantKind::immediate);
  b.flops(2 * p["in"] * out);
}

std::string checkHeads(const RoleValues &p) {
  if (p["query_heads"] % p["kv_heads"] != 0) {
    return "query_heads = " + std::to_string(p["query_heads"]) +
           " is not a multiple of kv_heads = " + std::to_string(p["kv_heads"]);
  }
  if (p["head_dim"] % 2 != 0) {
    return "head_dim = " + std::to_string(p["head_dim"]) + " is odd";
  }
  return {};
}

void qkNormWeights(const RoleValues &p, SignatureBuilder &b) {
  if (p["qk_norm"]) {
    bool perHead = p["qk_norm"] == 1;
    b.weight("q_norm", p.dtype(), p["head_dim"] * (perHead ? 1 : p["query_heads"]));
    b.weight("k_norm", p.dtype(), p["head_dim"] * (perHead ? 1 : p["kv_heads"]));
  }
}

void ropeAppend(const RoleValues &p, SignatureBuilder &b) {
  int64_t query = p["query_heads"] * p["head_dim"], kv = p["kv_heads"] * p["head_dim"];
  b.in("qkv", query + 2 * kv);
  b.indices("positions");
  b.indices("sequence_ids");
  b.buffer("rope_table", KernelAccess::read, DType::f32, {.per_position = F32_BYTES * p["head_dim"]});
  qkNormWeights(p, b);
  b.out("q_out", query);
  b.caches(p, KernelAccess::read_write);
  b.tokens();
  b.constant("kv_capacity", ConstantKind::kv_capacity);
  b.constant("eps", ConstantKind::immediate);
}

void attention(const RoleValues &p, SignatureBuilder &b) {
  int64_t query = p["query_heads"] * p["head_dim"];
  b.in("q", query);
  b.indices("positions");
  b.indices("sequence_ids");
  b.caches(p, KernelAccess::read);
  b.out("out", query);
  if (static_cast<KvLayout>(p["kv"]) != KvLayout::rows_bf16) {
    b.buffer("partials", KernelAccess::write, DType::f32,
             attentionPartialsSize(p["query_heads"], p["head_dim"]));
  }
  b.tokens();
  b.constant("kv_capacity", ConstantKind::kv_capacity);
  if (static_cast<KvLayout>(p["kv"]) != KvLayout::rows_bf16) {
    b.constant("sequences", ConstantKind::sequence_count);
  }
}

void linearResidual(const RoleValues &p, SignatureBuilder &b) {
  b.in("a", p["in"]);
  b.matrix("weight", p, p["out"], p["in"]);
  b.in("x_in", p["out"]);
  b.out("x_out", p["out"]);
  b.tokens();
  b.constant("scale", ConstantKind::immediate);
  b.flops(2 * p["in"] * p["out"]);
}

std::string checkTopK(const RoleValues &p) {
  return p["top_k"] <= p["experts"] ? std::string()
                                    : "top_k = " + std::to_string(p["top_k"]) +
                                          " is more than experts = " + std::to_string(p["experts"]);
}

void route(const RoleValues &p, SignatureBuilder &b) {
  b.in("logits", p["experts"]);
  b.buffer("indices", KernelAccess::write, DType::i32, perToken(I32_BYTES * p["top_k"]));
  b.out("weights", p["top_k"]);
  b.tokens();
}

void moePlan(const RoleValues &p, SignatureBuilder &b) {
  b.buffer("indices", KernelAccess::read, DType::i32, perToken(I32_BYTES * p["top_k"]));
  b.buffer("plan", KernelAccess::write, DType::i32, planSize(p));
  b.tokens();
}

void expertsGateUp(const RoleValues &p, SignatureBuilder &b) {
  int64_t elements = p["hidden"] * p["expert_hidden"];
  b.in("x_norm", p["hidden"]);
  b.buffer("plan", KernelAccess::read, DType::i32, planSize(p));
  b.matrices("gate", p, p["expert_hidden"], p["hidden"]);
  b.matrices("up", p, p["expert_hidden"], p["hidden"]);
  b.out("h", p["top_k"] * p["expert_hidden"]);
  b.tokens();
  b.flops(4 * elements, p["top_k"]);
}

void expertsDown(const RoleValues &p, SignatureBuilder &b) {
  int64_t elements = p["hidden"] * p["expert_hidden"];
  b.in("h", p["top_k"] * p["expert_hidden"]);
  b.buffer("plan", KernelAccess::read, DType::i32, planSize(p));
  b.matrices("down", p, p["hidden"], p["expert_hidden"]);
  b.out("y", p["top_k"] * p["hidden"]);
  b.tokens();
  b.flops(2 * elements, p["top_k"]);
}

void combineResidual(const RoleValues &p, SignatureBuilder &b) {
  b.in("y", p["top_k"] * p["hidden"]);
  b.buffer("plan", KernelAccess::read, DType::i32, planSize(p));
  b.in("weights", p["top_k"]);
  b.in("x_in", p["hidden"]);
  b.out("x_out", p["hidden"]);
  b.tokens();
  b.constant("scale", ConstantKind::immediate);
}

void gateUp(const RoleValues &p, SignatureBuilder &b) {
  b.in("x", p["in"]);
  if (p["norm"]) {
    b.weight("norm_weight", p.vectorType(), p["in"]);
  }
  b.matrix("gate", p, p["out"], p["in"]);
  b.matrix("up", p, p["out"], p["in"]);
  b.out("h", p["out"]);
  b.tokens();
  b.constant("eps", ConstantKind::immediate);
  b.flops(4 * p["in"] * p["out"]);
}

// Kernels of short steps, where one launch does the work of several of the roles above.

void normQkvRope(const RoleValues &p, SignatureBuilder &b) {
  int64_t query = p["query_heads"] * p["head_dim"], kv = p["kv_heads"] * p["head_dim"];
  b.in("x", p["in"]);
  b.weight("norm_weight", p.vectorType(), p["in"]);
  b.matrix("wq", p, query, p["in"]);
  b.matrix("wk", p, kv, p["in"]);
  b.matrix("wv", p, kv, p["in"]);
  if (p["bias"]) {
    b.weight("bq", p.dtype(), query);
    b.weight("bk", p.dtype(), kv);
    b.weight("bv", p.dtype(), kv);
  }
  qkNormWeights(p, b);
  b.indices("positions");
  b.indices("sequence_ids");
  b.buffer("rope_table", KernelAccess::read, DType::f32, {.per_position = F32_BYTES * p["head_dim"]});
  b.out("q_out", query);
  b.caches(p, KernelAccess::read_write);
  b.tokens();
  b.constant("kv_capacity", ConstantKind::kv_capacity);
  b.constant("eps", ConstantKind::immediate);
  b.constant("qk_eps", ConstantKind::immediate);
  b.flops(2 * p["in"] * (query + 2 * kv));
}

void normRoute(const RoleValues &p, SignatureBuilder &b) {
  b.in("x", p["in"]);
  b.weight("norm_weight", p.vectorType(), p["in"]);
  b.matrix("weight", p, p["experts"], p["in"]);
  if (p["shared"]) {
    b.matrix("shared_gate", p, p["shared"], p["in"]);
    b.matrix("shared_up", p, p["shared"], p["in"]);
  }
  b.out("x_norm", p["in"]);
  b.buffer("indices", KernelAccess::write, DType::i32, perToken(I32_BYTES * p["top_k"]));
  b.out("weights", p["top_k"]);
  if (p["shared"]) {
    b.out("h_shared", p["shared"]);
  }
  b.tokens();
  b.constant("eps", ConstantKind::immediate);
  b.flops(2 * p["in"] * (p["experts"] + 2 * p["shared"]));
}

void expertsGateUpDirect(const RoleValues &p, SignatureBuilder &b) {
  int64_t elements = p["hidden"] * p["expert_hidden"];
  b.in("x_norm", p["hidden"]);
  b.buffer("indices", KernelAccess::read, DType::i32, perToken(I32_BYTES * p["top_k"]));
  b.matrices("gate", p, p["expert_hidden"], p["hidden"]);
  b.matrices("up", p, p["expert_hidden"], p["hidden"]);
  b.out("h", p["top_k"] * p["expert_hidden"]);
  if (p["shared"]) {
    b.in("h_shared", p["shared"]);
    b.matrix("shared_down", p, p["hidden"], p["shared"]);
    b.in("x_in", p["hidden"]);
    b.out("x_out", p["hidden"]);
  }
  b.tokens();
  if (p["shared"]) {
    b.constant("scale", ConstantKind::immediate);
  }
  b.flops(4 * elements, p["top_k"]);
  b.result.flops_per_token = 2 * p["hidden"] * p["shared"];
}

void expertsDownResidual(const RoleValues &p, SignatureBuilder &b) {
  int64_t elements = p["hidden"] * p["expert_hidden"];
  b.in("h", p["top_k"] * p["expert_hidden"]);
  b.buffer("indices", KernelAccess::read, DType::i32, perToken(I32_BYTES * p["top_k"]));
  b.in("weights", p["top_k"]);
  b.matrices("down", p, p["hidden"], p["expert_hidden"]);
  b.in("x_in", p["hidden"]);
  b.out("x_out", p["hidden"]);
  b.tokens();
  b.constant("scale", ConstantKind::immediate);
  b.flops(2 * elements, p["top_k"]);
}

void sample(const RoleValues &p, SignatureBuilder &b) {
  b.buffer("logits", KernelAccess::read, DType::f32, perRow(F32_BYTES * p["vocab"]));
  b.buffer("draws", KernelAccess::read_write, DType::i32, perRow(sizeof(smelt_draw)));
  b.buffer("token_ids", KernelAccess::read_write, DType::i32, perToken(I32_BYTES));
  b.buffer("positions", KernelAccess::read_write, DType::i32, perToken(I32_BYTES));
  b.buffer("sampled", KernelAccess::write, DType::i32, perRow(I32_BYTES));
  b.constant("rows", ConstantKind::logit_row_count);
}

} // namespace

const std::vector<Role> &mlir::smelt::kernelRoles() {
  static const std::vector<RoleParameter> expertParameters = {dimension("hidden", "h"),
                                                              dimension("expert_hidden", "f"),
                                                              dimension("experts", "e"),
                                                              dimension("top_k", "k"),
                                                              matrixType(),
                                                              matrixLayout()};
  static const std::vector<RoleParameter> withShared = [] {
    std::vector<RoleParameter> parameters = expertParameters;
    parameters.push_back(sharedWidth());
    return parameters;
  }();
  static const std::vector<Role> table = {
      {"embed",
       {dimension("hidden", "h"), dimension("vocab", "v"), weightType(), matrixLayout()},
       fine,
       embed},
      {"norm_linear",
       {dimension("in", "h"),
        {"outs", 1, 3, "", {"", "", "", ""}},
        dimension("out0", "o"),
        {"out1", 0, MAX_DIMENSION, "o"},
        {"out2", 0, MAX_DIMENSION, "o"},
        flag("norm", "raw", ""),
        flag("emit_norm", "", "emit"),
        flag("gather", "", "rows"),
        flag("bias", "", "bias"),
        matrixType(),
        matrixLayout()},
       checkNormLinear,
       normLinear},
      {"rope_append",
       {dimension("query_heads", "q"), dimension("kv_heads", "k"), dimension("head_dim", "d"), qkNorm(),
        weightType(), kvLayout()},
       checkHeads,
       ropeAppend},
      {"attention",
       {dimension("query_heads", "q"), dimension("kv_heads", "k"), dimension("head_dim", "d"), kvLayout()},
       checkHeads,
       attention},
      {"linear_residual",
       {dimension("in", "i"), dimension("out", "o"), matrixType(), matrixLayout()},
       fine,
       linearResidual},
      {"route",
       {dimension("experts", "e"),
        dimension("top_k", "k"),
        {"router", 0, 1, "", {"softmax", "sigmoid"}},
        flag("renormalize", "", "renorm")},
       checkTopK,
       route},
      {"moe_plan", {dimension("experts", "e"), dimension("top_k", "k")}, checkTopK, moePlan},
      {"experts_gate_up", expertParameters, checkTopK, expertsGateUp},
      {"experts_down", expertParameters, checkTopK, expertsDown},
      {"combine_residual",
       {dimension("hidden", "h"), dimension("experts", "e"), dimension("top_k", "k")},
       checkTopK,
       combineResidual},
      {"gate_up",
       {dimension("in", "i"), dimension("out", "o"), flag("norm", "raw", ""), matrixType(), matrixLayout()},
       fine,
       gateUp},
      {"norm_qkv_rope",
       {dimension("in", "h"), dimension("query_heads", "q"), dimension("kv_heads", "k"),
        dimension("head_dim", "d"), qkNorm(), flag("bias", "", "bias"), weightType(), matrixLayout(),
        kvLayout()},
       checkHeads,
       normQkvRope},
      {"norm_route",
       {dimension("in", "h"),
        dimension("experts", "e"),
        dimension("top_k", "k"),
        {"router", 0, 1, "", {"softmax", "sigmoid"}},
        flag("renormalize", "", "renorm"),
        weightType(),
        matrixLayout(),
        sharedWidth()},
       checkTopK,
       normRoute},
      {"experts_gate_up_direct", withShared, checkTopK, expertsGateUpDirect},
      {"experts_down_residual", expertParameters, checkTopK, expertsDownResidual},
      {"argmax", {dimension("vocab", "v")}, fine, sample},
      {"sample", {dimension("vocab", "v")}, fine, sample},
  };
  return table;
}

KernelSignature mlir::smelt::roleSignature(const Role &role, const RoleValues &values) {
  SignatureBuilder builder;
  role.build(values, builder);
  return std::move(builder.result);
}
