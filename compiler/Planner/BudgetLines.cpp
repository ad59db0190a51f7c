#include "compiler/Planner/BudgetLines.h"

#include "compiler/Budget/Accounting.h"

#include <algorithm>

namespace smelt::planner {
namespace {

using budget::CheckedInt;
using budget::DenseMlp;
using budget::ExpertMlp;
using budget::Layer;
using budget::WeightCount;

// Of layers of zeros and ones, which fit.
int64_t number(CheckedInt count) { return count.value().value_or(0); }

WeightCount count(const Layer &layer, int64_t hidden) {
  return budget::sumOf(budget::countLayer(layer, hidden));
}

// A layer of nothing but this.
template <typename Ffn> Layer only(const Ffn &ffn) {
  return {.attention = budget::GroupedAttention{}, .ffn = ffn, .norm_vectors = 0};
}

// `times` the function of H and W that takes these values at zeros and ones.
template <typename Values> Bilinear bilinear(int64_t times, const Values &values) {
  const Wide one = values(0, 0);
  const Wide hidden = values(1, 0) - one;
  const Wide width = values(0, 1) - one;
  return {.one = times * one,
          .hidden = times * hidden,
          .width = times * width,
          .both = times * (values(1, 1) - one - hidden - width)};
}

} // namespace

Wide floorDivide(Wide a, Wide b) {
  const Wide quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

Bilinear &Bilinear::operator+=(const Bilinear &other) {
  one += other.one;
  hidden += other.hidden;
  width += other.width;
  both += other.both;
  return *this;
}

BudgetLines::BudgetLines(const Baseline &baseline, const budget::Architecture &looped,
                         budget::Attended attended)
    : attended(attended) {
  // Alternating layers come as many short runs.
  for (const budget::LayerGroup &group : looped.groups) {
    const bool loops = group.visits > 1;
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind &other) {
      return other.layer == group.layer && other.looped == loops;
    });
    if (kind == kinds.end()) {
      kind = kinds.insert(kinds.end(), {.layer = group.layer, .looped = loops});
    }
    kind->stored += group.layers;
    kind->executed += group.layers * group.visits;
  }
  for (const Kind &kind : kinds) {
    addFfn(kind);
  }
  top_k = baseline.experts() ? baseline.experts()->top_k : 0;
}

void BudgetLines::addFfn(const Kind &kind) {
  if (const auto *dense = std::get_if<DenseMlp>(&kind.layer.ffn)) {
    const auto of = [&](CheckedInt WeightCount::*part) {
      return [dense, part](int64_t hidden, int64_t width) {
        return number(count(only(DenseMlp{.width = width, .bias = dense->bias}), hidden).*part);
      };
    };
    dense_params += bilinear(kind.stored, of(&WeightCount::params));
    dense_matrices += bilinear(kind.executed, of(&WeightCount::matrices));
    return;
  }
  const auto of = [&](CheckedInt WeightCount::*part, int64_t experts, int64_t top_k) {
    const ExpertMlp &flags = std::get<ExpertMlp>(kind.layer.ffn);
    return [=](int64_t hidden, int64_t width, int64_t shared_width) {
      ExpertMlp mlp = flags;
      mlp.experts = experts;
      mlp.top_k = top_k;
      mlp.width = width;
      mlp.shared_width = shared_width;
      return number(count(only(mlp), hidden).*part);
    };
  };
  // What one more expert, or one more expert used, adds.
  const auto more = [](auto with, auto without) {
    return [=](int64_t hidden, int64_t width) { return with(hidden, width, 0) - without(hidden, width, 0); };
  };
  const auto shared = [](auto values) {
    return [=](int64_t hidden, int64_t width) { return values(hidden, 0, width); };
  };
  expert_params +=
      bilinear(kind.stored, more(of(&WeightCount::params, 1, 0), of(&WeightCount::params, 0, 0)));
  shared_params += bilinear(kind.stored, shared(of(&WeightCount::params, 0, 0)));
  router_matrices +=
      bilinear(kind.executed, more(of(&WeightCount::matrices, 1, 0), of(&WeightCount::matrices, 0, 0)));
  used_matrices +=
      bilinear(kind.executed, more(of(&WeightCount::matrices, 0, 1), of(&WeightCount::matrices, 0, 0)));
  shared_matrices += bilinear(kind.executed, shared(of(&WeightCount::matrices, 0, 0)));
}

Wide BudgetLines::kvElements(const Shape &shape) const {
  Wide elements = 0;
  for (const Kind &kind : kinds) {
    budget::Attention attention = kind.layer.attention;
    applyHeads(attention, shape, kind.looped);
    elements += Wide(kind.executed) * number(budget::cachedPerPosition(attention));
  }
  return elements;
}

void BudgetLines::fixHeads(const Shape &shape) {
  top_k = shape.top_k;
  attention_params = attention_matrices = {};
  scores = 0;
  for (const Kind &kind : kinds) {
    Layer layer = kind.layer;
    layer.ffn = DenseMlp{};
    applyHeads(layer.attention, shape, kind.looped);
    const WeightCount none = count(layer, 0);
    const WeightCount one = count(layer, 1);
    const auto add = [](Line &line, int64_t times, CheckedInt at, CheckedInt next) {
      line.at += Wide(times) * number(at);
      line.per_expert += Wide(times) * (number(next) - number(at));
    };
    add(attention_params, kind.stored, none.params, one.params);
    add(attention_matrices, kind.executed, none.matrices, one.matrices);
    const budget::Mean mean = budget::Context(attended).mean(layer.reach, layer.window);
    // Halves of positions meet even numbers of FLOPs: nothing is left over.
    scores += Wide(kind.executed) * number(budget::scoreFlops(layer.attention)) * mean.total / mean.queries;
  }
}

void BudgetLines::fixHidden(int64_t hidden_size, int64_t mlp_width) {
  const Wide hidden = hidden_size;
  params_expert = expert_params.at(hidden);
  const Line shared = shared_params.at(hidden);
  params_fixed = attention_params.at + attention_params.per_expert * hidden +
                 dense_params(hidden, mlp_width) + shared.at;
  params_shared = shared.per_expert;
  // Twice for a multiply-add, three times for training.
  const Line used = used_matrices.at(hidden);
  const Line shared_used = shared_matrices.at(hidden);
  flops_fixed = 6 * (attention_matrices.at + attention_matrices.per_expert * hidden +
                     dense_matrices(hidden, mlp_width) + shared_used.at + top_k * used.at) +
                3 * scores;
  flops_width = 6 * top_k * used.per_expert;
  flops_shared = 6 * shared_used.per_expert;
  flops_expert = 6 * router_matrices.at(hidden).at;
}

} // namespace smelt::planner
