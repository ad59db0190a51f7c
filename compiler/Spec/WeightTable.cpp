#include "compiler/Spec/WeightTable.h"

#include <cctype>
#include <string_view>

namespace smelt::spec {
namespace {

struct RoleInfo {
  const char *role;
  const char *name;
};

// Indexed by WeightRole.
constexpr RoleInfo kRoles[] = {
    {"embedding", "model.embed_tokens.weight"},
    {"attention_norm", "model.layers.{layer}.input_layernorm.weight"},
    {"q_proj", "model.layers.{layer}.self_attn.q_proj.weight"},
    {"k_proj", "model.layers.{layer}.self_attn.k_proj.weight"},
    {"v_proj", "model.layers.{layer}.self_attn.v_proj.weight"},
    {"q_bias", "model.layers.{layer}.self_attn.q_proj.bias"},
    {"k_bias", "model.layers.{layer}.self_attn.k_proj.bias"},
    {"v_bias", "model.layers.{layer}.self_attn.v_proj.bias"},
    {"q_norm", "model.layers.{layer}.self_attn.q_norm.weight"},
    {"k_norm", "model.layers.{layer}.self_attn.k_norm.weight"},
    {"o_proj", "model.layers.{layer}.self_attn.o_proj.weight"},
    {"ffn_norm", "model.layers.{layer}.post_attention_layernorm.weight"},
    {"router", "model.layers.{layer}.mlp.gate.weight"},
    {"expert_gate", "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight"},
    {"expert_up", "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"},
    {"expert_down", "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight"},
    {"shared_gate", "model.layers.{layer}.mlp.shared_experts.gate_proj.weight"},
    {"shared_up", "model.layers.{layer}.mlp.shared_experts.up_proj.weight"},
    {"shared_down", "model.layers.{layer}.mlp.shared_experts.down_proj.weight"},
    {"mlp_gate", "model.layers.{layer}.mlp.gate_proj.weight"},
    {"mlp_up", "model.layers.{layer}.mlp.up_proj.weight"},
    {"mlp_down", "model.layers.{layer}.mlp.down_proj.weight"},
    {"final_norm", "model.norm.weight"},
    {"lm_head", "lm_head.weight"},
};
static_assert(std::size(kRoles) == static_cast<size_t>(WeightRole::lm_head) + 1);

const RoleInfo &info(WeightRole role) { return kRoles[static_cast<size_t>(role)]; }

void replaceFirst(std::string &text, std::string_view what, int64_t value) {
  if (size_t at = text.find(what); at != std::string::npos) {
    text.replace(at, what.size(), std::to_string(value));
  }
}

// Collects the declarations of one model.
class Builder {
public:
  explicit Builder(const ModelSpec &spec) : spec(spec) {}

  std::vector<WeightDecl> build() {
    outsideLayers(WeightRole::embedding, {spec.vocab_size, spec.hidden_size});
    for (size_t i = 0; i < spec.segments.size(); ++i) {
      segment = i;
      addAttention(spec.segments[i].attention);
      add(WeightRole::ffn_norm, {spec.hidden_size});
      if (spec.segments[i].ffn == FfnKind::moe && spec.moe) {
        addMoe(*spec.moe);
      } else if (spec.segments[i].ffn == FfnKind::dense && spec.mlp) {
        addSwiGlu(WeightRole::mlp_gate, spec.mlp->hidden_size, 0);
      }
    }
    outsideLayers(WeightRole::final_norm, {spec.hidden_size});
    if (!spec.tie_embeddings) {
      outsideLayers(WeightRole::lm_head, {spec.vocab_size, spec.hidden_size});
    }
    return std::move(table);
  }

private:
  void outsideLayers(WeightRole role, std::vector<int64_t> shape) {
    table.push_back({.role = role, .name = info(role).name, .shape = std::move(shape)});
  }

  void add(WeightRole role, std::vector<int64_t> shape, int64_t experts = 0) {
    table.push_back({.role = role,
                     .name = info(role).name,
                     .shape = std::move(shape),
                     .segment = static_cast<int64_t>(segment),
                     .first_layer = spec.firstLayer(segment),
                     .layers = spec.segments[segment].layers,
                     .experts = experts});
  }

  void addAttention(const Attention &attention) {
    const int64_t query = attention.queryWidth();
    const int64_t kv = attention.kvWidth();
    add(WeightRole::attention_norm, {spec.hidden_size});
    add(WeightRole::q_proj, {query, spec.hidden_size});
    add(WeightRole::k_proj, {kv, spec.hidden_size});
    add(WeightRole::v_proj, {kv, spec.hidden_size});
    if (attention.qkv_bias) {
      add(WeightRole::q_bias, {query});
      add(WeightRole::k_bias, {kv});
      add(WeightRole::v_bias, {kv});
    }
    if (attention.qk_norm != QkNorm::none) {
      const bool per_head = attention.qk_norm == QkNorm::per_head;
      add(WeightRole::q_norm, {per_head ? attention.head_dim : query});
      add(WeightRole::k_norm, {per_head ? attention.head_dim : kv});
    }
    add(WeightRole::o_proj, {spec.hidden_size, query});
  }

  void addMoe(const Moe &moe) {
    add(WeightRole::router, {moe.experts, spec.hidden_size});
    addSwiGlu(WeightRole::expert_gate, moe.expert_hidden_size, moe.experts);
    if (moe.shared_experts > 0) {
      addSwiGlu(WeightRole::shared_gate, moe.sharedWidth(), 0);
    }
  }

  // The up and down roles follow the gate role in WeightRole.
  void addSwiGlu(WeightRole gate, int64_t width, int64_t experts) {
    const int first = static_cast<int>(gate);
    add(gate, {width, spec.hidden_size}, experts);
    add(static_cast<WeightRole>(first + 1), {width, spec.hidden_size}, experts);
    add(static_cast<WeightRole>(first + 2), {spec.hidden_size, width}, experts);
  }

  const ModelSpec &spec;
  size_t segment = 0;
  std::vector<WeightDecl> table;
};

} // namespace

std::string WeightDecl::tensorName(int64_t layer, int64_t expert) const {
  std::string result = name;
  replaceFirst(result, "{layer}", layer);
  replaceFirst(result, "{expert}", expert);
  return result;
}

std::vector<WeightDecl> weightTable(const ModelSpec &spec) { return Builder(spec).build(); }

namespace {

// Whether the name is the pattern with whole numbers for its braces.
bool fits(std::string_view name, std::string_view pattern) {
  while (!pattern.empty()) {
    if (pattern.front() == '{') {
      size_t digits = 0;
      while (digits < name.size() && std::isdigit(static_cast<unsigned char>(name[digits]))) {
        ++digits;
      }
      if (digits == 0) {
        return false;
      }
      name.remove_prefix(digits);
      pattern.remove_prefix(pattern.find('}') + 1);
      continue;
    }
    if (name.empty() || name.front() != pattern.front()) {
      return false;
    }
    name.remove_prefix(1);
    pattern.remove_prefix(1);
  }
  return name.empty();
}

} // namespace

std::optional<WeightRole> weightRoleOf(std::string_view name) {
  for (size_t role = 0; role < std::size(kRoles); ++role) {
    if (fits(name, kRoles[role].name)) {
      return static_cast<WeightRole>(role);
    }
  }
  return std::nullopt;
}

bool isQuantized(WeightRole role) {
  switch (role) {
  case WeightRole::q_proj:
  case WeightRole::k_proj:
  case WeightRole::v_proj:
  case WeightRole::o_proj:
  case WeightRole::expert_gate:
  case WeightRole::expert_up:
  case WeightRole::expert_down:
  case WeightRole::shared_gate:
  case WeightRole::shared_up:
  case WeightRole::shared_down:
  case WeightRole::mlp_gate:
  case WeightRole::mlp_up:
  case WeightRole::mlp_down:
  case WeightRole::lm_head:
    return true;
  case WeightRole::embedding:
  case WeightRole::attention_norm:
  case WeightRole::q_bias:
  case WeightRole::k_bias:
  case WeightRole::v_bias:
  case WeightRole::q_norm:
  case WeightRole::k_norm:
  case WeightRole::ffn_norm:
  case WeightRole::router:
  case WeightRole::final_norm:
    return false;
  }
  return false;
}

const char *weightRoleName(WeightRole role) { return info(role).role; }

} // namespace smelt::spec
