#include "compiler/Budget/Budget.h"

#include "compiler/Budget/CheckedInt.h"

#include <fmt/format.h>

namespace smelt::budget {
namespace {

using spec::Attention;
using spec::FfnKind;
using spec::ModelSpec;
using spec::QkNorm;
using spec::Segment;

// Of one layer. Matrices are the weights that one token is multiplied with.
struct LayerCount {
  CheckedInt params;
  CheckedInt active_params;
  CheckedInt active_matrices;
};

struct Ffn {
  CheckedInt params;
  CheckedInt active;
};

CheckedInt swiGlu(CheckedInt hidden, CheckedInt width) { return CheckedInt(3) * hidden * width; }

// All of it is matrices.
Ffn countFfn(const ModelSpec &spec, const Segment &segment) {
  const CheckedInt hidden = spec.hidden_size;
  if (segment.ffn == FfnKind::dense) {
    const CheckedInt mlp = spec.mlp ? swiGlu(hidden, spec.mlp->hidden_size) : CheckedInt();
    return {mlp, mlp};
  }
  if (!spec.moe) {
    return {};
  }
  const spec::Moe &moe = *spec.moe;
  const CheckedInt expert = swiGlu(hidden, moe.expert_hidden_size);
  const CheckedInt shared = swiGlu(hidden, CheckedInt(moe.shared_experts) * moe.shared_expert_hidden_size);
  const CheckedInt always = hidden * moe.experts + shared;
  return {always + expert * moe.experts, always + expert * moe.top_k};
}

CheckedInt biasesAndNorms(const ModelSpec &spec, const Attention &attention, CheckedInt query,
                          CheckedInt kv) {
  CheckedInt count = CheckedInt(2) * spec.hidden_size;
  if (attention.qkv_bias) {
    count += query + CheckedInt(2) * kv;
  }
  if (attention.qk_norm == QkNorm::per_head) {
    count += CheckedInt(2) * attention.head_dim;
  } else if (attention.qk_norm == QkNorm::full_width) {
    count += query + kv;
  }
  return count;
}

LayerCount countLayer(const ModelSpec &spec, const Segment &segment) {
  const Attention &attention = segment.attention;
  const CheckedInt query = CheckedInt(attention.query_heads) * attention.head_dim;
  const CheckedInt kv = CheckedInt(attention.kv_heads) * attention.head_dim;
  const CheckedInt projections = CheckedInt(2) * spec.hidden_size * (query + kv);
  const CheckedInt vectors = biasesAndNorms(spec, attention, query, kv);
  const Ffn ffn = countFfn(spec, segment);
  return {.params = projections + vectors + ffn.params,
          .active_params = projections + vectors + ffn.active,
          .active_matrices = projections + ffn.active};
}

// Scores and weighted values: 2 products of query width and `attended` positions, 4 FLOPs per element.
CheckedInt attentionFlops(const Attention &attention, Attended attended) {
  const CheckedInt query = CheckedInt(attention.query_heads) * attention.head_dim;
  return CheckedInt(4) * query * attended.whole() + (attended.half() ? CheckedInt(2) * query : CheckedInt());
}

struct Sums {
  CheckedInt params;
  CheckedInt active;
  CheckedInt forward;
  CheckedInt kv_elements;
  CheckedInt executed;
};

Sums sumSegments(const ModelSpec &spec, Attended attended) {
  Sums sums;
  for (const Segment &segment : spec.segments) {
    const LayerCount layer = countLayer(spec, segment);
    const CheckedInt executed = CheckedInt(segment.layers) * segment.visits;
    const CheckedInt kv = CheckedInt(2) * segment.attention.kv_heads * segment.attention.head_dim;
    sums.params += layer.params * segment.layers;
    sums.active += layer.active_params * segment.layers;
    sums.forward +=
        executed * (CheckedInt(2) * layer.active_matrices + attentionFlops(segment.attention, attended));
    sums.kv_elements += executed * kv;
    sums.executed += executed;
  }
  return sums;
}

} // namespace

std::array<std::pair<std::string_view, int64_t>, 7> fields(const Budget &budget) {
  return {{
      {"non_embedding_params", budget.non_embedding_params},
      {"total_params", budget.total_params},
      {"active_params", budget.active_params},
      {"training_flops_per_token", budget.training_flops_per_token},
      {"forward_flops_per_token", budget.forward_flops_per_token},
      {"kv_elements_per_token", budget.kv_elements_per_token},
      {"executed_layers", budget.executed_layers},
  }};
}

BudgetResult computeBudget(const ModelSpec &spec, Attended attended) {
  const Sums sums = sumSegments(spec, attended);
  const CheckedInt embedding = CheckedInt(spec.vocab_size) * spec.hidden_size;
  const CheckedInt outside = embedding + spec.hidden_size + (spec.tie_embeddings ? CheckedInt() : embedding);
  BudgetResult result;
  Budget budget;
  const auto narrow = [&](CheckedInt value, int64_t &out, std::string_view name) {
    if (value.value()) {
      out = *value.value();
    } else if (result.error.empty()) {
      result.error =
          fmt::format("{} does not fit in 64 bits (with {} attended positions)", name, attended.text());
    }
  };
  narrow(sums.params, budget.non_embedding_params, "non_embedding_params");
  narrow(sums.params + outside, budget.total_params, "total_params");
  narrow(sums.active, budget.active_params, "active_params");
  narrow(CheckedInt(3) * sums.forward, budget.training_flops_per_token, "training_flops_per_token");
  narrow(sums.forward, budget.forward_flops_per_token, "forward_flops_per_token");
  narrow(sums.kv_elements, budget.kv_elements_per_token, "kv_elements_per_token");
  narrow(sums.executed, budget.executed_layers, "executed_layers");
  if (result.error.empty()) {
    result.budget = budget;
  }
  return result;
}

} // namespace smelt::budget
