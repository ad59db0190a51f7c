// A spec with every field, as text to break in tests.
#pragma once

#include <stdexcept>
#include <string>

namespace smelt::tests {

inline constexpr const char *kFullSpec = R"([model]
name = "full"
vocab_size = 100
hidden_size = 16
norm_eps = 1e-5
tie_embeddings = true

[attention]
query_heads = 6
kv_heads = 3
head_dim = 12
rope_theta = 5e5
qk_norm = "per_head"
qkv_bias = true

[moe]
experts = 5
top_k = 2
expert_hidden_size = 8
router = "sigmoid"
renormalize = false
shared_experts = 2
shared_expert_hidden_size = 7

[mlp]
hidden_size = 24

[[segment]]
layers = 2
visits = 3
order = "layer"
residual_scale = 0.25
kv_cache = "per_visit"
ffn = "moe"

[[segment]]
layers = 1
ffn = "dense"
[segment.attention]
query_heads = 4
kv_heads = 4
head_dim = 8
rope_theta = 100.0
qk_norm = "full_width"
qkv_bias = false
)";

// kFullSpec with the first occurrence of `from` replaced.
inline std::string edited(const std::string &from, const std::string &to) {
  std::string text = kFullSpec;
  const size_t at = text.find(from);
  if (at == std::string::npos) {
    throw std::logic_error("not in the spec: " + from);
  }
  return text.replace(at, from.size(), to);
}

} // namespace smelt::tests
