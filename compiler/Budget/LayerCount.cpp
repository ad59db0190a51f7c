// Weights, attention FLOPs and cache of one layer.
#include "compiler/Budget/Accounting.h"

namespace smelt::budget {
namespace {

template <typename... Cases> struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases> Overloaded(Cases...) -> Overloaded<Cases...>;

constexpr size_t at(Component component) { return static_cast<size_t>(component); }

// Gate, up and down.
CheckedInt gatedMlp(CheckedInt hidden, CheckedInt width) { return CheckedInt(3) * hidden * width; }
CheckedInt gatedMlpBias(CheckedInt hidden, CheckedInt width) { return CheckedInt(2) * width + hidden; }

// Weights that every token uses.
WeightCount dense(CheckedInt matrices, CheckedInt vectors = 0) {
  return {.params = matrices + vectors, .active = matrices + vectors, .matrices = matrices};
}

CheckedInt unless(bool absent, CheckedInt count) { return absent ? CheckedInt() : count; }

WeightCount count(const GroupedAttention &a, CheckedInt hidden) {
  const CheckedInt query = CheckedInt(a.query_heads) * a.head_dim;
  const CheckedInt kv = CheckedInt(a.kv_heads) * a.head_dim;
  const CheckedInt gated_query = a.output_gate ? query + query : query;
  CheckedInt vectors = unless(!a.query_bias, gated_query) + unless(!a.key_bias, kv) +
                       unless(!a.value_bias, kv) + unless(!a.output_bias, hidden) +
                       unless(!a.sinks, a.query_heads);
  if (a.qk_norm == spec::QkNorm::per_head) {
    vectors += CheckedInt(2) * a.head_dim;
  } else if (a.qk_norm == spec::QkNorm::full_width) {
    vectors += query + kv;
  }
  return dense(hidden * (gated_query + query + CheckedInt(2) * kv), vectors);
}

WeightCount count(const LatentAttention &a, CheckedInt hidden) {
  const CheckedInt query = CheckedInt(a.heads) * (CheckedInt(a.nope_dim) + a.rope_dim);
  const CheckedInt value = CheckedInt(a.heads) * a.value_dim;
  const CheckedInt compressed = CheckedInt(a.kv_rank) + a.rope_dim;
  const bool has_rank = a.query_rank > 0;
  const CheckedInt query_matrices = has_rank ? (hidden + query) * a.query_rank : hidden * query;
  const CheckedInt kv_matrices =
      hidden * compressed + CheckedInt(a.kv_rank) * (CheckedInt(a.heads) * a.nope_dim + value);
  // The norm of each rank, and the biases.
  const CheckedInt vectors =
      CheckedInt(a.query_rank) + a.kv_rank + unless(!a.bias, CheckedInt(a.query_rank) + compressed + hidden);
  return dense(query_matrices + kv_matrices + value * hidden, vectors);
}

WeightCount count(const LinearAttention &a, CheckedInt hidden) {
  const CheckedInt key = CheckedInt(a.key_heads) * a.key_dim;
  const CheckedInt value = CheckedInt(a.value_heads) * a.value_dim;
  const CheckedInt convolved = CheckedInt(2) * key + value;
  // Q, K, V and the output gate; a decay and a write strength per value head; output.
  const CheckedInt matrices =
      hidden * (convolved + value) + hidden * CheckedInt(2) * a.value_heads + value * hidden;
  // The depthwise convolution, which belongs to the recurrence that follows it; the decay's scale and bias
  // per head; the gated norm over a value head.
  return dense(matrices, convolved * a.conv_kernel + CheckedInt(2) * a.value_heads + a.value_dim);
}

void countFfn(const DenseMlp &mlp, CheckedInt hidden, WeightTally &tally) {
  tally[at(Component::mlp)] =
      dense(gatedMlp(hidden, mlp.width), unless(!mlp.bias, gatedMlpBias(hidden, mlp.width)));
}

void countFfn(const ExpertMlp &mlp, CheckedInt hidden, WeightTally &tally) {
  const CheckedInt matrices = gatedMlp(hidden, mlp.width);
  const CheckedInt expert = matrices + unless(!mlp.bias, gatedMlpBias(hidden, mlp.width));
  tally[at(Component::router)] = dense(hidden * mlp.experts, unless(!mlp.router_bias, mlp.experts) +
                                                                 unless(!mlp.correction_bias, mlp.experts));
  tally[at(Component::experts)] = {
      .params = expert * mlp.experts, .active = expert * mlp.top_k, .matrices = matrices * mlp.top_k};
  tally[at(Component::shared)] = dense(gatedMlp(hidden, mlp.shared_width) + unless(!mlp.shared_gate, hidden));
}

} // namespace

WeightCount &WeightCount::operator+=(const WeightCount &other) {
  params += other.params;
  active += other.active;
  matrices += other.matrices;
  return *this;
}

WeightCount operator*(WeightCount count, CheckedInt factor) {
  return {
      .params = count.params * factor, .active = count.active * factor, .matrices = count.matrices * factor};
}

WeightTally countLayer(const Layer &layer, int64_t hidden_size) {
  WeightTally tally;
  tally[at(Component::attention)] =
      std::visit([&](const auto &attention) { return count(attention, hidden_size); }, layer.attention);
  std::visit([&](const auto &ffn) { countFfn(ffn, hidden_size, tally); }, layer.ffn);
  tally[at(Component::norms)] = dense(0, CheckedInt(layer.norm_vectors) * hidden_size);
  return tally;
}

WeightCount countAdapter(const Adapter &adapter) {
  return dense(CheckedInt(adapter.inputs) * adapter.outputs, unless(!adapter.bias, adapter.outputs));
}

WeightCount sumOf(const WeightTally &tally) {
  WeightCount sum;
  for (const WeightCount &part : tally) {
    sum += part;
  }
  return sum;
}

CheckedInt scoreFlops(const Attention &attention) {
  return std::visit(Overloaded{
                        [](const GroupedAttention &a) { return CheckedInt(4) * a.query_heads * a.head_dim; },
                        [](const LatentAttention &a) {
                          return CheckedInt(2) * a.heads *
                                 (CheckedInt(a.nope_dim) + a.rope_dim + a.value_dim);
                        },
                        [](const LinearAttention &) { return CheckedInt(); },
                    },
                    attention);
}

CheckedInt cachedPerPosition(const Attention &attention) {
  return std::visit(Overloaded{
                        [](const GroupedAttention &a) { return CheckedInt(2) * a.kv_heads * a.head_dim; },
                        [](const LatentAttention &a) { return CheckedInt(a.kv_rank) + a.rope_dim; },
                        [](const LinearAttention &) { return CheckedInt(); },
                    },
                    attention);
}

CheckedInt cachedState(const Attention &attention) {
  const auto *linear = std::get_if<LinearAttention>(&attention);
  if (linear == nullptr) {
    return {};
  }
  // A key x value matrix per value head, and the inputs that the convolution still needs.
  const CheckedInt value = CheckedInt(linear->value_heads) * linear->value_dim;
  const CheckedInt convolved = CheckedInt(2) * linear->key_heads * linear->key_dim + value;
  return value * linear->key_dim + convolved * (CheckedInt(linear->conv_kernel) + CheckedInt(-1));
}

} // namespace smelt::budget
