#include "compiler/Codegen/CUDA/KernelCost.h"

#include <algorithm>
#include <functional>

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t BF16 = 2, F32 = 4, I32 = 4;

// A kernel's parameters in a step, and the parts its cost is made of.
class Accountant {
public:
  Accountant(const KernelDesc &kernel, const StepShape &step) : kernel(kernel), step(step) {}

  int64_t operator[](const char *name) const { return kernel.param(name); }
  bool has(const char *name) const { return kernel.params.count(name) && kernel.param(name) != 0; }
  int64_t tokens() const { return step.tokens; }
  int64_t choices() const { return step.tokens * (*this)["top_k"]; }
  // Experts that are read: those of all (token, choice) pairs if these may all differ.
  int64_t expertsRead() const { return std::min(choices(), (*this)["experts"]); }

  void vector(int64_t elements) { cost.weight_bytes += BF16 * elements; }
  // rows activations times a matrix.
  void product(int64_t rows, int64_t in, int64_t out, int64_t matrices = 1) {
    cost.weight_bytes += BF16 * in * out * matrices;
    cost.flops += 2 * rows * in * out;
  }
  void activations(int64_t rows, int64_t width) { cost.activation_bytes += F32 * rows * width; }
  void integers(int64_t count) { cost.activation_bytes += I32 * count; }
  void cachedPositions(int64_t positions) {
    cost.cache_bytes += 2 * BF16 * positions * (*this)["kv_heads"] * (*this)["head_dim"];
  }

  const KernelDesc &kernel;
  const StepShape &step;
  KernelCost cost;
};

int64_t queryWidth(const Accountant &a) { return a["query_heads"] * a["head_dim"]; }
int64_t kvWidth(const Accountant &a) { return a["kv_heads"] * a["head_dim"]; }

void embed(Accountant &a) {
  a.cost.weight_bytes += BF16 * a.tokens() * a["hidden"];
  a.integers(a.tokens());
  a.activations(a.tokens(), a["hidden"]);
}

void normLinear(Accountant &a) {
  int64_t rows = a.has("gather") ? a.step.logit_rows : a.tokens();
  int64_t out = a["out0"] + a["out1"] + a["out2"];
  a.activations(rows, a["in"] * (a.has("emit_norm") ? 2 : 1) + out);
  a.vector((a.has("norm") ? a["in"] : 0) + (a.has("bias") ? out : 0));
  a.integers(a.has("gather") ? rows : 0);
  a.product(rows, a["in"], out);
}

void ropeAppend(Accountant &a) {
  a.activations(a.tokens(), 2 * (queryWidth(a) + kvWidth(a)));
  a.activations(a.tokens(), a["head_dim"]); // of the rope table
  a.integers(2 * a.tokens());
  if (a.has("qk_norm")) {
    a.vector(a["qk_norm"] == 1 ? 2 * a["head_dim"] : queryWidth(a) + kvWidth(a));
  }
  a.cachedPositions(a.tokens());
}

void normQkvRope(Accountant &a) {
  int64_t out = queryWidth(a) + 2 * kvWidth(a);
  a.activations(a.tokens(), a["in"] + queryWidth(a) + a["head_dim"]);
  a.integers(2 * a.tokens());
  a.vector(a["in"] + (a.has("bias") ? out : 0) + (a.has("qk_norm") ? 2 * a["head_dim"] : 0));
  a.product(a.tokens(), a["in"], out);
  a.cachedPositions(a.tokens());
}

void attention(Accountant &a) {
  a.activations(a.tokens(), 2 * queryWidth(a));
  a.integers(2 * a.tokens());
  a.cachedPositions(a.tokens() * a.step.context);
  a.cost.flops += 4 * a.tokens() * a.step.context * queryWidth(a);
}

void linearResidual(Accountant &a) {
  a.activations(a.tokens(), a["in"] + 2 * a["out"]);
  a.product(a.tokens(), a["in"], a["out"]);
}

void gateUp(Accountant &a) {
  a.activations(a.tokens(), a["in"] + a["out"]);
  a.vector(a.has("norm") ? a["in"] : 0);
  a.product(a.tokens(), a["in"], 2 * a["out"]);
}

void route(Accountant &a) {
  a.activations(a.tokens(), a["experts"] + a["top_k"]);
  a.integers(a.choices());
}

void normRoute(Accountant &a) {
  a.activations(a.tokens(), 2 * a["in"] + a["top_k"]);
  a.integers(a.choices());
  a.vector(a["in"]);
  a.product(a.tokens(), a["in"], a["experts"]);
}

void moePlan(Accountant &a) { a.integers(3 * a.choices() + 2 * a["experts"] + 2); }

void expertsGateUp(Accountant &a) {
  a.activations(a.tokens(), a["hidden"]);
  a.integers(a.choices());
  a.activations(a.choices(), a["expert_hidden"]);
  a.product(0, a["hidden"], 2 * a["expert_hidden"], a.expertsRead());
  a.cost.flops += 4 * a.choices() * a["hidden"] * a["expert_hidden"];
}

void expertsDown(Accountant &a) {
  bool combines = a.kernel.role == "experts_down_residual";
  a.activations(a.choices(), a["expert_hidden"]);
  a.integers(a.choices());
  a.activations(combines ? a.tokens() : a.choices(), a["hidden"] * (combines ? 2 : 1));
  a.activations(combines ? a.choices() : 0, 1);
  a.product(0, a["hidden"], a["expert_hidden"], a.expertsRead());
  a.cost.flops += 2 * a.choices() * a["hidden"] * a["expert_hidden"];
}

void combineResidual(Accountant &a) {
  a.activations(a.choices(), a["hidden"] + 1);
  a.integers(a.choices());
  a.activations(a.tokens(), 2 * a["hidden"]);
  a.cost.flops += 2 * a.choices() * a["hidden"];
}

} // namespace

KernelCost kernelCost(const KernelDesc &kernel, const StepShape &step) {
  static const std::map<std::string, void (*)(Accountant &)> table = {
      {"embed", embed},
      {"norm_linear", normLinear},
      {"rope_append", ropeAppend},
      {"norm_qkv_rope", normQkvRope},
      {"attention", attention},
      {"linear_residual", linearResidual},
      {"gate_up", gateUp},
      {"route", route},
      {"norm_route", normRoute},
      {"moe_plan", moePlan},
      {"experts_gate_up", expertsGateUp},
      {"experts_gate_up_direct", expertsGateUp},
      {"experts_down", expertsDown},
      {"experts_down_residual", expertsDown},
      {"combine_residual", combineResidual},
  };
  Accountant accountant(kernel, step);
  if (auto it = table.find(kernel.role); it != table.end()) {
    it->second(accountant);
  }
  return accountant.cost;
}

} // namespace smelt::codegen::cuda
