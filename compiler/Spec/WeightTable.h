// Every weight tensor a spec needs, with its Hugging Face name: the single list that the dialect builder,
// `smeltc weights init` and `smeltc inspect` read.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::spec {

enum class WeightRole {
  embedding,      // model.embed_tokens.weight                                   [vocab, hidden]
  attention_norm, // model.layers.{layer}.input_layernorm.weight                 [hidden]
  q_proj,         // model.layers.{layer}.self_attn.q_proj.weight                [query width, hidden]
  k_proj,         // model.layers.{layer}.self_attn.k_proj.weight                [kv width, hidden]
  v_proj,         // model.layers.{layer}.self_attn.v_proj.weight                [kv width, hidden]
  q_bias,         // model.layers.{layer}.self_attn.q_proj.bias                  [query width]
  k_bias,         // model.layers.{layer}.self_attn.k_proj.bias                  [kv width]
  v_bias,         // model.layers.{layer}.self_attn.v_proj.bias                  [kv width]
  q_norm,         // model.layers.{layer}.self_attn.q_norm.weight                [head_dim] or [query width]
  k_norm,         // model.layers.{layer}.self_attn.k_norm.weight                [head_dim] or [kv width]
  o_proj,         // model.layers.{layer}.self_attn.o_proj.weight                [hidden, query width]
  ffn_norm,       // model.layers.{layer}.post_attention_layernorm.weight        [hidden]
  router,         // model.layers.{layer}.mlp.gate.weight                        [experts, hidden]
  expert_gate,    // model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight  [expert hidden, hidden]
  expert_up,      // model.layers.{layer}.mlp.experts.{expert}.up_proj.weight    [expert hidden, hidden]
  expert_down,    // model.layers.{layer}.mlp.experts.{expert}.down_proj.weight  [hidden, expert hidden]
  shared_gate,    // model.layers.{layer}.mlp.shared_experts.gate_proj.weight    [shared width, hidden]
  shared_up,      // model.layers.{layer}.mlp.shared_experts.up_proj.weight      [shared width, hidden]
  shared_down,    // model.layers.{layer}.mlp.shared_experts.down_proj.weight    [hidden, shared width]
  mlp_gate,       // model.layers.{layer}.mlp.gate_proj.weight                   [mlp hidden, hidden]
  mlp_up,         // model.layers.{layer}.mlp.up_proj.weight                     [mlp hidden, hidden]
  mlp_down,       // model.layers.{layer}.mlp.down_proj.weight                   [hidden, mlp hidden]
  final_norm,     // model.norm.weight                                           [hidden]
  lm_head,        // lm_head.weight (absent when tied)                           [vocab, hidden]
};

// A family of tensors of one role in one segment: one tensor per layer, and per expert when experts > 0.
// Names hold "{layer}" and "{expert}" where the physical layer and the expert go.
struct WeightDecl {
  WeightRole role;
  std::string name;           // the Hugging Face name pattern
  std::vector<int64_t> shape; // of one tensor, row-major, output dimension first
  int64_t segment = -1;       // index into ModelSpec::segments, -1 outside layers
  int64_t first_layer = 0;
  int64_t layers = 0;  // 0: the tensor is not in a layer
  int64_t experts = 0; // 0: the tensor is not per expert

  // Number of tensors in the family.
  int64_t tensors() const { return (layers ? layers : 1) * (experts ? experts : 1); }
  // Name of one tensor; layer is the physical layer.
  std::string tensorName(int64_t layer, int64_t expert) const;
};

// In file order: embedding, then layer by layer within a segment role by role, final norm, head.
std::vector<WeightDecl> weightTable(const ModelSpec &spec);

// Stable identifier of a role, e.g. "q_proj"; used for symbols in the dialect.
const char *weightRoleName(WeightRole role);

// The role of the tensor with this name, in whatever layer and expert; none when no spec has such a tensor.
std::optional<WeightRole> weightRoleOf(std::string_view name);

// Whether models with i8 weights keep tensors of this role in 8 bits: every projection and the head. The rest
// (embedding, router, norms, biases) is small, read sparsely, or decides what is computed, and stays in bf16.
bool isQuantized(WeightRole role);

} // namespace smelt::spec
