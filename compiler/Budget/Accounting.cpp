#include "compiler/Budget/Accounting.h"

#include <algorithm>
#include <fmt/format.h>

namespace smelt::budget {
namespace {

constexpr size_t at(Component component) { return static_cast<size_t>(component); }

struct Layers {
  WeightTally once;                       // each layer once
  std::array<FlopSum, kComponents> flops; // every visit
  FlopSum total_flops;                    // the sum of `flops`, rounded once
  FlopSum loop_flops;                     // one visit of what loops
  CheckedInt executed;
  CheckedInt kv_slope;
  CheckedInt kv_fixed;
  std::vector<std::pair<int64_t, CheckedInt>> windows; // positions, elements per position
};

void addWindow(std::vector<std::pair<int64_t, CheckedInt>> &windows, int64_t positions, CheckedInt slope) {
  const auto place = std::lower_bound(windows.begin(), windows.end(), positions,
                                      [](const auto &window, int64_t p) { return window.first < p; });
  if (place != windows.end() && place->first == positions) {
    place->second += slope;
  } else {
    windows.insert(place, {positions, slope});
  }
}

void addGroup(const LayerGroup &group, int64_t hidden, const Context &context, Layers &sums) {
  const WeightTally layer = countLayer(group.layer, hidden);
  const CheckedInt executed = CheckedInt(group.layers) * group.visits;
  const Mean mean = context.mean(group.layer.reach, group.layer.window);
  const CheckedInt score = scoreFlops(group.layer.attention);
  for (size_t i = 0; i < kComponents; ++i) {
    sums.once[i] += layer[i] * group.layers;
    const CheckedInt flops = CheckedInt(2) * layer[i].matrices;
    sums.flops[i].add(flops * executed);
    sums.total_flops.add(flops * executed);
    if (group.looped) {
      sums.loop_flops.add(flops * group.layers);
    }
  }
  sums.flops[at(Component::attention)].add(score * executed, mean);
  sums.total_flops.add(score * executed, mean);
  if (group.looped) {
    sums.loop_flops.add(score * group.layers, mean);
  }
  sums.executed += executed;
  sums.kv_fixed += cachedState(group.layer.attention) * executed;
  const CheckedInt cached = cachedPerPosition(group.layer.attention) * executed;
  if (group.layer.reach == Reach::full) {
    sums.kv_slope += cached;
  } else {
    addWindow(sums.windows, group.layer.window, cached);
  }
}

void addAdapter(const Adapter &adapter, Layers &sums) {
  const WeightCount weights = countAdapter(adapter);
  const CheckedInt flops = CheckedInt(2) * weights.matrices * adapter.executions;
  sums.once[at(Component::adapters)] += weights;
  sums.flops[at(Component::adapters)].add(flops);
  sums.total_flops.add(flops);
  if (adapter.looped && adapter.executions > 0) {
    sums.loop_flops.add(CheckedInt(2) * weights.matrices);
  }
}

// Converts sums to integers; the first that does not fit is the error.
class Narrow {
public:
  explicit Narrow(const Context &context) : context(context) {}

  void operator()(CheckedInt value, int64_t &out, std::string_view name) {
    if (value.value()) {
      out = *value.value();
    } else if (error.empty()) {
      error = fmt::format("{} does not fit in 64 bits (with {})", name, context.words());
    }
  }
  std::string error;

private:
  const Context &context;
};

void addMtp(const Architecture &a, const Context &context, const OutsideWeights &outside, CheckedInt total,
            Narrow &narrow, Account &account) {
  WeightCount weights;
  FlopSum flops;
  CheckedInt copies;
  if (a.mtp) {
    const CheckedInt projection = CheckedInt(2) * a.hidden_size * a.hidden_size;
    const WeightCount layer = sumOf(countLayer(a.mtp->layer, a.hidden_size));
    const CheckedInt extra = projection + CheckedInt(3) * a.hidden_size;
    weights = WeightCount{.params = layer.params + extra, .active = layer.active + extra, .matrices = {}} *
              a.mtp->depth;
    flops.add((CheckedInt(2) * (layer.matrices + projection) + outside.headFlops()) * a.mtp->depth);
    flops.add(scoreFlops(a.mtp->layer.attention) * a.mtp->depth,
              context.mean(a.mtp->layer.reach, a.mtp->layer.window));
    copies = CheckedInt(2) * outside.embedding * a.mtp->depth;
  }
  narrow(total + weights.params + copies, account.stored_params, "stored_params");
  narrow(weights.params, account.mtp_params, "mtp_params");
  narrow(weights.active, account.mtp_active_params, "mtp_active_params");
  narrow(flops.value(), account.mtp_forward_flops, "mtp_forward_flops_per_token");
}

void fillComponents(const Layers &layers, const Architecture &a, const OutsideWeights &outside,
                    Narrow &narrow, Account &account) {
  WeightTally weights = layers.once;
  std::array<FlopSum, kComponents> flops = layers.flops;
  weights[at(Component::norms)] +=
      {.params = outside.final_norm, .active = outside.final_norm, .matrices = 0};
  weights[at(Component::embedding)] = {
      .params = outside.embedding, .active = outside.embedding, .matrices = 0};
  const CheckedInt head = outside.untied + outside.head_bias;
  weights[at(Component::head)] = {.params = head, .active = head, .matrices = 0};
  flops[at(Component::head)].add(outside.headFlops());
  for (size_t i = 0; i < kComponents; ++i) {
    const std::string_view name = componentName(static_cast<Component>(i));
    narrow(weights[i].params, account.components[i].params, name);
    narrow(weights[i].active, account.components[i].active_params, name);
    narrow(flops[i].value(), account.components[i].forward_flops, name);
  }
}

void fillKv(const Layers &layers, Narrow &narrow, Account &account) {
  narrow(layers.kv_fixed, account.kv.fixed, "kv_fixed_elements");
  narrow(layers.kv_slope, account.kv.slope, "kv_elements_per_token");
  CheckedInt filled = layers.kv_fixed;
  for (const auto &[positions, slope] : layers.windows) {
    KvLaw::Window window{.positions = positions};
    narrow(slope, window.slope, "kv_elements_per_token");
    filled += slope * positions;
    account.kv.windows.push_back(window);
  }
  int64_t unused = 0;
  narrow(filled, unused, "the elements of full windows");
}

} // namespace

std::string_view componentName(Component component) {
  constexpr std::string_view names[kComponents] = {"attention", "router",   "experts",   "shared", "mlp",
                                                   "norms",     "adapters", "embedding", "head"};
  return names[at(component)];
}

OutsideWeights::OutsideWeights(const Architecture &a)
    : embedding(CheckedInt(a.vocab_size) * a.hidden_size), untied(a.tied ? CheckedInt() : embedding),
      final_norm(CheckedInt(a.final_norm_vectors) * a.hidden_size),
      head_bias(a.head_bias ? CheckedInt(a.vocab_size) : CheckedInt()) {}

void FlopSum::add(CheckedInt per_position, Mean mean) {
  whole += per_position * mean.whole();
  if (mean.rest() != 0) {
    parts += per_position * mean.rest();
    queries = mean.queries;
  }
}

CheckedInt FlopSum::value() const {
  if (!parts.value()) {
    return whole + parts;
  }
  const int64_t sum = *parts.value();
  const int64_t rest = sum % queries;
  return whole + CheckedInt(sum / queries + (rest >= queries - rest ? 1 : 0));
}

AccountResult accountFor(const Architecture &a, const Context &context) {
  Layers layers;
  for (const LayerGroup &group : a.groups) {
    addGroup(group, a.hidden_size, context, layers);
  }
  for (const Adapter &adapter : a.adapters) {
    addAdapter(adapter, layers);
  }
  const WeightCount body = sumOf(layers.once);
  const OutsideWeights outside(a);
  const CheckedInt forward = layers.total_flops.value();
  const CheckedInt total = body.params + outside.params();
  CheckedInt kv = layers.kv_slope;
  for (const auto &[positions, slope] : layers.windows) {
    kv += slope;
  }

  Account account;
  Narrow narrow(context);
  narrow(body.params, account.non_embedding_params, "non_embedding_params");
  narrow(total, account.total_params, "total_params");
  narrow(body.active, account.active_params, "active_params");
  narrow(CheckedInt(3) * forward, account.training_flops, "training_flops_per_token");
  narrow(forward, account.forward_flops, "forward_flops_per_token");
  narrow(kv, account.kv_elements_per_token, "kv_elements_per_token");
  narrow(layers.executed, account.executed_layers, "executed_layers");

  const CheckedInt bare = body.active + outside.final_norm;
  const CheckedInt head = outside.embedding + outside.head_bias;
  narrow(body.params + outside.final_norm, account.non_embedding_params_with_final_norm,
         "non_embedding_params");
  narrow(bare, account.active_params_without_embeddings, "active_params_without_embeddings");
  narrow(bare + head, account.active_params_without_input_embedding, "active_params_without_input_embedding");
  narrow(bare + head + outside.untied, account.active_params_all, "active_params_all");
  const CheckedInt with_head = forward + outside.headFlops();
  narrow(outside.headFlops(), account.head_flops, "head_flops_per_token");
  narrow(with_head, account.forward_flops_with_head, "forward_flops_with_head_per_token");
  narrow(CheckedInt(3) * with_head, account.training_flops_with_head, "training_flops_with_head_per_token");
  narrow(layers.loop_flops.value(), account.loop_flops_per_visit, "loop_flops_per_visit");
  addMtp(a, context, outside, total, narrow, account);
  fillComponents(layers, a, outside, narrow, account);
  fillKv(layers, narrow, account);
  if (!narrow.error.empty()) {
    return {.account = std::nullopt, .error = std::move(narrow.error)};
  }
  return {.account = std::move(account), .error = ""};
}

} // namespace smelt::budget
