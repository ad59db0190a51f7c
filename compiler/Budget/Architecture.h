// What a model is for accounting: layers with their projections, norms and biases, in execution order. Specs
// and imported configurations are both reduced to this, so that all budgets come from one set of formulas
// (Accounting.h). It holds what changes a count and nothing else: no activation functions, no RoPE.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace smelt::budget {

// Which cached positions a layer attends to: all, the last `window`, or those in its own chunk of `window`.
enum class Reach { full, sliding, chunked };

// Multi-head, grouped-query and multi-query attention. Query width is query_heads * head_dim.
struct GroupedAttention {
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool query_bias = false;
  bool key_bias = false;
  bool value_bias = false;
  bool output_bias = false;
  spec::QkNorm qk_norm = spec::QkNorm::none;
  bool output_gate = false; // a second projection of query width that gates the output (Qwen3-Next)
  bool sinks = false;       // one learned logit per query head (gpt-oss)

  bool operator==(const GroupedAttention &) const = default;
};

// Multi-head latent attention (DeepSeek): the cache holds one vector of kv_rank + rope_dim per position.
struct LatentAttention {
  int64_t heads = 0;
  int64_t query_rank = 0; // 0: one full query projection
  int64_t kv_rank = 0;
  int64_t nope_dim = 0; // of a query or key head, without position
  int64_t rope_dim = 0; // of a query or key head, with position; the key's is shared by all heads
  int64_t value_dim = 0;
  bool bias = false; // on the projections into the ranks and out of the heads

  bool operator==(const LatentAttention &) const = default;
};

// Gated DeltaNet (Qwen3-Next): a state per value head instead of a cache.
struct LinearAttention {
  int64_t key_heads = 0;
  int64_t value_heads = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  int64_t conv_kernel = 0; // of the causal depthwise convolution over queries, keys and values

  bool operator==(const LinearAttention &) const = default;
};

using Attention = std::variant<GroupedAttention, LatentAttention, LinearAttention>;

// Gated: three matrices.
struct DenseMlp {
  int64_t width = 0;
  bool bias = false;

  bool operator==(const DenseMlp &) const = default;
};

struct ExpertMlp {
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t width = 0; // of one routed expert
  bool bias = false; // on the three matrices of every routed expert
  bool router_bias = false;
  bool correction_bias = false; // per expert, for choosing only (DeepSeek-V3)
  int64_t shared_width = 0;     // of all shared experts together
  bool shared_gate = false;     // a hidden -> 1 projection that gates the shared experts (Qwen2-MoE)

  bool operator==(const ExpertMlp &) const = default;
};

struct Layer {
  Attention attention;
  Reach reach = Reach::full;
  int64_t window = 0; // positions, unless reach is full
  std::variant<DenseMlp, ExpertMlp> ffn = {};
  int64_t norm_vectors = 2; // of hidden size: norms with a weight, twice with a bias too

  bool operator==(const Layer &) const = default;
};

struct LayerGroup {
  Layer layer;
  int64_t layers = 0;
  int64_t visits = 1;
  bool looped = false; // its visits are the model's loop, whatever their number is now

  bool operator==(const LayerGroup &) const = default;
};

// A projection outside layers: the adapter of a recurrent block, an exit gate.
struct Adapter {
  std::string name;
  int64_t inputs = 0;
  int64_t outputs = 0;
  bool bias = false;
  int64_t executions = 0; // per token; 0 for weights that do not take part in the forward pass
  bool looped = false;    // executed once per visit

  bool operator==(const Adapter &) const = default;
};

// Extra layers that predict tokens further ahead (DeepSeek-V3): each a layer, a projection of twice the
// hidden size and three norms. Checkpoints store the embedding and the head again for each of them.
struct MultiTokenPrediction {
  Layer layer;
  int64_t depth = 0;

  bool operator==(const MultiTokenPrediction &) const = default;
};

struct Architecture {
  std::string name;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  bool tied = false; // the head is the embedding
  bool head_bias = false;
  int64_t final_norm_vectors = 1;      // of hidden size
  std::vector<LayerGroup> groups = {}; // in execution order
  std::vector<Adapter> adapters = {};
  std::optional<MultiTokenPrediction> mtp = {};

  // With every looped group and adapter visited that often.
  Architecture withVisits(int64_t visits) const;
  bool operator==(const Architecture &) const = default;
};

Architecture architectureOf(const spec::ModelSpec &spec);

// Appends a layer to the last group when it is alike, else as a group of its own.
void appendLayer(std::vector<LayerGroup> &groups, const Layer &layer, int64_t visits = 1,
                 bool looped = false);

} // namespace smelt::budget
