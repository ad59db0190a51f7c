#include "compiler/Budget/Conventions.h"

#include <algorithm>

namespace smelt::budget {
namespace {

constexpr size_t at(Component component) { return static_cast<size_t>(component); }

// Attended positions in parts of 1 / (2 S), the common denominator of all conventions.
class Positions {
public:
  Positions(const Layer &layer, int64_t length)
      : length(length), window(layer.reach == Reach::full ? length : std::min(length, layer.window)) {}

  Mean causal() const { return {.total = 2 * causalPositions(length, window), .queries = 2 * length}; }
  // S / 2, or S W - W^2 / 2 over S: what is left of a band without its diagonal.
  Mean half() const { return {.total = (2 * length - window) * window, .queries = 2 * length}; }
  // S / 2 for layers that see everything; windows exactly.
  Mean halfOrWindow() const { return window == length ? half() : causal(); }
  Mean band() const { return {.total = 2 * length * window, .queries = 2 * length}; }
  Mean everything() const { return {.total = 2 * length * length, .queries = 2 * length}; }

private:
  int64_t length;
  int64_t window;
};

int64_t headsOf(const Attention &attention) {
  if (const auto *grouped = std::get_if<GroupedAttention>(&attention)) {
    return grouped->query_heads;
  }
  const auto *latent = std::get_if<LatentAttention>(&attention);
  return latent != nullptr ? latent->heads : 0;
}

int64_t ranksOf(const Attention &attention) {
  const auto *latent = std::get_if<LatentAttention>(&attention);
  return latent != nullptr ? latent->query_rank + latent->kv_rank : 0;
}

// What the conventions put together, per token and with every visit.
struct Terms {
  CheckedInt matrices; // executed elements, with router and head
  CheckedInt router;
  CheckedInt vectors; // norms and biases
  CheckedInt ranks;   // of latent attention
  CheckedInt embedding;
  CheckedInt softmax; // 3 x heads x positions
  FlopSum causal, half, half_or_window, band, everything;
};

void addLayers(const LayerGroup &group, int64_t hidden, int64_t length, Terms &terms) {
  const CheckedInt executed = CheckedInt(group.layers) * group.visits;
  const WeightTally tally = countLayer(group.layer, hidden);
  const WeightCount sum = sumOf(tally);
  terms.matrices += sum.matrices * executed;
  terms.router += tally[at(Component::router)].matrices * executed;
  terms.vectors += (sum.active + CheckedInt(-1) * sum.matrices) * executed;
  terms.ranks += executed * ranksOf(group.layer.attention);
  terms.softmax += CheckedInt(3) * executed * headsOf(group.layer.attention) * length;
  const CheckedInt score = scoreFlops(group.layer.attention) * executed;
  const Positions positions(group.layer, length);
  terms.causal.add(score, positions.causal());
  terms.half.add(score, positions.half());
  terms.half_or_window.add(score, positions.halfOrWindow());
  terms.band.add(score, positions.band());
  terms.everything.add(score, positions.everything());
}

Terms termsOf(const Architecture &a, int64_t length) {
  Terms terms;
  for (const LayerGroup &group : a.groups) {
    addLayers(group, a.hidden_size, length, terms);
  }
  for (const Adapter &adapter : a.adapters) {
    terms.matrices += CheckedInt(adapter.inputs) * adapter.outputs * adapter.executions;
    if (adapter.bias) {
      terms.vectors += CheckedInt(adapter.outputs) * adapter.executions;
    }
  }
  terms.embedding = CheckedInt(a.vocab_size) * a.hidden_size;
  terms.matrices += terms.embedding;
  terms.vectors += CheckedInt(a.final_norm_vectors) * a.hidden_size;
  if (a.head_bias) {
    terms.vectors += a.vocab_size;
  }
  return terms;
}

} // namespace

std::optional<std::vector<Convention>> conventions(const Architecture &a, int64_t length) {
  const AccountResult account = accountFor(a, Context::causal(length));
  if (!account) {
    return std::nullopt;
  }
  const Terms t = termsOf(a, length);
  const CheckedInt minus_router = t.matrices + CheckedInt(-1) * t.router;
  struct Row {
    std::string_view name;
    std::string_view definition;
    CheckedInt flops;
  };
  const auto three = [](CheckedInt forward) { return CheckedInt(3) * forward; };
  const CheckedInt two(2);
  const Row rows[] = {
      {"exact", "3 x (2 x matrices with router and head + scores over exact causal means)",
       three(two * t.matrices + t.causal.value())},
      {"megatron", "no router; S/2, exact means in windows; ranks of latent attention",
       three(two * (minus_router + t.ranks) + t.half_or_window.value())},
      {"maxtext", "S/2, and half a band less in windows", three(two * t.matrices + t.half.value())},
      {"torchtitan", "6 x all weights with norms and biases; no causal mask, windows capped",
       three(two * (t.matrices + t.vectors) + t.band.value())},
      {"palm", "6 x matrices + 12 x layers x heads x head size x S",
       three(two * t.matrices + t.everything.value())},
      {"chinchilla", "as palm, with the softmax and the embedding as a matrix product",
       three(two * (t.matrices + t.embedding) + t.everything.value() + t.softmax)},
      {"6N", "6 x active parameters, both embeddings included; no attention",
       CheckedInt(6) * account.account->active_params_all},
  };
  std::vector<Convention> result;
  for (const Row &row : rows) {
    const auto flops = row.flops.value();
    if (!flops) {
      return std::nullopt;
    }
    result.push_back({.name = row.name, .definition = row.definition, .training_flops = *flops});
  }
  return result;
}

} // namespace smelt::budget
