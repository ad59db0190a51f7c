// The model a spec describes: a decoder-only transformer as a list of segments in execution order.
// Every field has an effect on the compiled model; docs/spec.md documents each with its units.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace smelt::spec {

enum class RouterKind { softmax, sigmoid };
enum class VisitOrder { block, layer };
enum class KvCachePolicy { per_visit };
enum class FfnKind { moe, dense };
// per_head normalises each head_dim vector (Qwen3); full_width the whole projection (OLMoE).
enum class QkNorm { none, per_head, full_width };

struct Attention {
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  double rope_theta = 10000.0;
  QkNorm qk_norm = QkNorm::none;
  bool qkv_bias = false;

  int64_t queryWidth() const { return query_heads * head_dim; }
  int64_t kvWidth() const { return kv_heads * head_dim; }
  bool operator==(const Attention &) const = default;
};

struct Moe {
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t expert_hidden_size = 0;
  RouterKind router = RouterKind::softmax;
  bool renormalize = true;
  int64_t shared_experts = 0;
  int64_t shared_expert_hidden_size = 0; // of one shared expert

  int64_t sharedWidth() const { return shared_experts * shared_expert_hidden_size; }
  bool operator==(const Moe &) const = default;
};

struct Mlp {
  int64_t hidden_size = 0;
  bool operator==(const Mlp &) const = default;
};

struct Segment {
  int64_t layers = 0;
  int64_t visits = 1;
  VisitOrder order = VisitOrder::block;
  double residual_scale = 1.0; // 1/visits unless the spec says otherwise
  KvCachePolicy kv_cache = KvCachePolicy::per_visit;
  FfnKind ffn = FfnKind::moe;
  Attention attention = {}; // [attention] with the segment's overrides applied

  int64_t executedLayers() const { return layers * visits; }
  bool operator==(const Segment &) const = default;
};

struct ModelSpec {
  std::string name;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  double norm_eps = 1e-6;
  bool tie_embeddings = false;
  Attention attention; // the defaults of every segment
  std::optional<Moe> moe;
  std::optional<Mlp> mlp;
  std::vector<Segment> segments;

  int64_t physicalLayers() const;
  int64_t executedLayers() const;
  // First physical layer, and first KV cache slot, of segments[index].
  int64_t firstLayer(size_t index) const;
  int64_t firstKvSlot(size_t index) const;
  bool operator==(const ModelSpec &) const = default;
};

} // namespace smelt::spec
