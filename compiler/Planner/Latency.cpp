#include "compiler/Planner/Latency.h"

#include "compiler/Budget/Accounting.h"
#include "compiler/Budget/Context.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::planner {
namespace {

using budget::Architecture;
using budget::CheckedInt;
using budget::Component;
using budget::ExpertMlp;
using budget::Layer;

// One kernel, or several of the same kind with nothing between them.
struct Kernels {
  double bytes = 0;
  double cached = 0; // of these, from cache
  double flops = 0;
  int64_t launches = 0;

  bool none() const { return bytes == 0 && flops == 0 && launches == 0; }
};

// What the kernels of a layer read on every visit, whichever experts are chosen.
struct LayerWork {
  std::array<Kernels, kLatencyParts> parts;
  double weight_bytes = 0; // of all experts, with everything else
  double distinct_experts = 0;
  double part_of_experts = 0; // distinct over all

  Kernels &operator[](LatencyPart part) { return parts[static_cast<size_t>(part)]; }
  double bytes() const {
    double sum = 0;
    for (const Kernels &kernels : parts) {
      sum += kernels.bytes;
    }
    return sum;
  }
};

constexpr std::pair<Component, LatencyPart> kWeightParts[] = {{Component::attention, LatencyPart::attention},
                                                              {Component::router, LatencyPart::router},
                                                              {Component::experts, LatencyPart::experts},
                                                              {Component::shared, LatencyPart::shared},
                                                              {Component::mlp, LatencyPart::mlp},
                                                              {Component::norms, LatencyPart::norms}};

double raised(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent /= 2) {
    power *= exponent % 2 == 1 ? base : 1;
    base *= base;
  }
  return power;
}

// Projections that depend on one another, each fused with the norms, biases and rotations around it.
int64_t projectionLaunches(const budget::Attention &attention) {
  if (const auto *latent = std::get_if<budget::LatentAttention>(&attention)) {
    // Into the ranks; queries out of theirs; the heads' keys; the heads' values; output.
    return latent->query_rank > 0 ? 5 : 4;
  }
  return 2; // in and out
}

// For one query and one position. In decode the projections of latent attention's keys and values are moved
// to the other side of the scores, so that the cache is used as it is stored: 2 x heads x (rank + position
// for a score, rank for a value).
CheckedInt scoreFlops(const budget::Attention &attention, Phase phase) {
  if (const auto *latent = std::get_if<budget::LatentAttention>(&attention);
      latent != nullptr && phase == Phase::decode) {
    return CheckedInt(2) * latent->heads * (CheckedInt(2) * latent->kv_rank + latent->rope_dim);
  }
  return budget::scoreFlops(attention);
}

// Positions that one token attends to when it is the last of so many.
int64_t positionsSeen(const Layer &layer, int64_t positions) {
  switch (layer.reach) {
  case budget::Reach::full:
    return positions;
  case budget::Reach::sliding:
    return std::min(positions, layer.window);
  case budget::Reach::chunked:
    return layer.window > 0 ? (positions - 1) % layer.window + 1 : 0;
  }
  return positions;
}

class Prediction {
public:
  Prediction(const Architecture &model, const LatencyRequest &request)
      : model(model), device(request.device), step(request.step),
        weight_bytes(static_cast<double>(bytesOf(request.weights))),
        kv_bytes(static_cast<double>(bytesOf(request.kv_cache))),
        weight_flops(peak(request.weights) * device.achievable_compute),
        // Scores are computed wider than a cache of 8 bits.
        kv_flops(peak(request.kv_cache == NumberFormat::fp8 ? NumberFormat::bf16 : request.kv_cache) *
                 device.achievable_compute) {}

  std::optional<Latency> run() {
    layers.reserve(model.groups.size());
    for (const budget::LayerGroup &group : model.groups) {
      layers.push_back(workOf(group.layer));
    }
    placeInCache();
    for (size_t i = 0; i < layers.size(); ++i) {
      addGroup(model.groups[i], layers[i]);
    }
    addAdapters();
    addOutside();
    for (const PartLatency &part : latency.parts) {
      latency.total += part;
    }
    return fits && std::isfinite(latency.total.seconds) ? std::optional(latency) : std::nullopt;
  }

private:
  double peak(NumberFormat format) const {
    switch (format) {
    case NumberFormat::f32:
      return device.f32_flops;
    case NumberFormat::fp8:
      return device.fp8_flops > 0 ? device.fp8_flops : device.bf16_flops;
    case NumberFormat::bf16:
      return device.bf16_flops;
    }
    return device.bf16_flops;
  }

  double number(CheckedInt count) {
    fits = fits && count.value();
    return static_cast<double>(count.value().value_or(0));
  }

  LayerWork workOf(const Layer &layer) {
    LayerWork work;
    const budget::WeightTally tally = budget::countLayer(layer, model.hidden_size);
    const auto tokens = static_cast<double>(step.tokens());
    for (const auto &[component, part] : kWeightParts) {
      const budget::WeightCount &weights = tally[static_cast<size_t>(component)];
      work[part].bytes = number(weights.params) * weight_bytes;
      work[part].flops = 2 * number(weights.matrices) * tokens;
      work.weight_bytes += work[part].bytes;
    }
    work[LatencyPart::attention].launches = projectionLaunches(layer.attention);
    addCache(layer, work);
    if (const auto *experts = std::get_if<ExpertMlp>(&layer.ffn)) {
      work.distinct_experts = expectedDistinctExperts(experts->experts, experts->top_k, step.tokens());
      work.part_of_experts =
          experts->experts > 0 ? work.distinct_experts / static_cast<double>(experts->experts) : 0;
      work[LatencyPart::experts].bytes *= work.part_of_experts;
      work[LatencyPart::experts].launches = 2; // gate and up; down
      work[LatencyPart::router].launches = 1;
      work[LatencyPart::shared].launches = experts->shared_width > 0 ? 2 : 0;
    } else {
      work[LatencyPart::mlp].launches = 2;
    }
    return work;
  }

  void addCache(const Layer &layer, LayerWork &work) {
    const auto batch = static_cast<double>(step.batch);
    const double per_position = number(budget::cachedPerPosition(layer.attention)) * kv_bytes;
    const double state = number(budget::cachedState(layer.attention)) * kv_bytes;
    const double flops = number(scoreFlops(layer.attention, step.phase));
    Kernels &kernels = work[LatencyPart::cache];
    kernels.launches = 1;
    if (step.phase == Phase::decode) {
      const auto seen = static_cast<double>(positionsSeen(layer, step.positions));
      kernels.bytes = batch * (per_position * seen + 2 * state); // a state is read and written
      kernels.flops = batch * flops * seen;
    } else {
      const auto positions = static_cast<double>(step.positions);
      const budget::Mean pairs = budget::Context::causal(step.positions).mean(layer.reach, layer.window);
      kernels.bytes = batch * (2 * per_position * positions + state); // written, then read
      kernels.flops = batch * flops *
                      (static_cast<double>(pairs.total) * (positions / static_cast<double>(pairs.queries)));
    }
  }

  // Everything, when it all fits; or what the later visits of a loop find there of the one before.
  void placeInCache() {
    const budget::OutsideWeights outside(model);
    double all = number(outside.embedding + outside.head_bias + outside.final_norm) * weight_bytes;
    double span = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      const budget::LayerGroup &group = model.groups[i];
      const auto count = static_cast<double>(group.layers);
      const auto visits = static_cast<double>(group.visits);
      all += count * (layers[i].weight_bytes + visits * layers[i][LatencyPart::cache].bytes);
      span += group.visits > 1 ? count * layers[i].bytes() : 0;
    }
    all_cached = all <= device.cache_bytes;
    span_cached = span <= device.cache_bytes;
  }

  void addGroup(const budget::LayerGroup &group, const LayerWork &work) {
    latency.distinct_experts = std::max(latency.distinct_experts, work.distinct_experts);
    for (size_t i = 0; i < kLatencyParts; ++i) {
      const auto part = static_cast<LatencyPart>(i);
      Kernels kernels = work.parts[i];
      kernels.cached = all_cached ? kernels.bytes : 0;
      Kernels again = kernels;
      if (span_cached && part != LatencyPart::cache) {
        // An expert of this visit was also one of the visit before with the probability of any expert.
        again.cached =
            part == LatencyPart::experts && !all_cached ? again.bytes * work.part_of_experts : again.bytes;
      }
      add(part, kernels, group.layers);
      add(part, again, group.layers * (group.visits - 1));
    }
  }

  void addAdapters() {
    for (const budget::Adapter &adapter : model.adapters) {
      const budget::WeightCount weights = budget::countAdapter(adapter);
      Kernels kernels{.bytes = number(weights.params) * weight_bytes,
                      .flops = 2 * number(weights.matrices) * static_cast<double>(step.tokens()),
                      .launches = 1};
      kernels.cached = all_cached ? kernels.bytes : 0;
      add(LatencyPart::adapters, kernels, adapter.executions);
    }
  }

  // The rows of the embedding that the tokens look up, the final norm, and the head for the last token of
  // each sequence.
  void addOutside() {
    const budget::OutsideWeights outside(model);
    const auto tokens = static_cast<double>(step.tokens());
    const auto where = [&](Kernels kernels) {
      kernels.cached = all_cached ? kernels.bytes : 0;
      return kernels;
    };
    add(LatencyPart::embedding,
        where({.bytes = tokens * static_cast<double>(model.hidden_size) * weight_bytes, .launches = 1}), 1);
    add(LatencyPart::norms, where({.bytes = number(outside.final_norm) * weight_bytes}), 1);
    add(LatencyPart::head,
        where({.bytes = number(outside.embedding + outside.head_bias) * weight_bytes,
               .flops = number(outside.headFlops()) * static_cast<double>(step.batch),
               .launches = 1}),
        1);
  }

  void add(LatencyPart part, const Kernels &kernels, int64_t count) {
    // Most kinds of kernels are not in most layers, and layers outside loops have no second visit.
    if (count == 0 || kernels.none()) {
      return;
    }
    const double bandwidth =
        (kernels.bytes - kernels.cached) / (device.memory_bandwidth * device.achievable_bandwidth) +
        kernels.cached / device.cache_bandwidth;
    const double compute = kernels.flops / (part == LatencyPart::cache ? kv_flops : weight_flops);
    const auto times = static_cast<double>(count);
    PartLatency sum{.bytes = times * kernels.bytes,
                    .cached_bytes = times * kernels.cached,
                    .flops = times * kernels.flops,
                    .launches = count * kernels.launches};
    (bandwidth >= compute ? sum.bandwidth_seconds : sum.compute_seconds) =
        times * std::max(bandwidth, compute);
    sum.launch_seconds = static_cast<double>(sum.launches) * device.launch_seconds;
    sum.seconds = times * std::max(bandwidth, compute) + sum.launch_seconds;
    latency.parts[static_cast<size_t>(part)] += sum;
  }

  const Architecture &model;
  const DeviceModel &device;
  const Step &step;
  const double weight_bytes, kv_bytes, weight_flops, kv_flops;
  std::vector<LayerWork> layers; // one for each group
  bool all_cached = false;
  bool span_cached = false;
  bool fits = true;
  Latency latency;
};

} // namespace

std::string Step::words() const {
  const auto plural = [](int64_t count, const char *what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return phase == Phase::decode
             ? fmt::format("decode of {} with a context of {}", plural(batch, "sequence"), positions)
             : fmt::format("prefill of {} of {}", plural(batch, "prompt"), plural(positions, "token"));
}

std::string_view partName(LatencyPart part) {
  constexpr std::string_view names[kLatencyParts] = {"attention", "cache", "router",   "experts",   "shared",
                                                     "mlp",       "norms", "adapters", "embedding", "head"};
  return names[static_cast<size_t>(part)];
}

std::string_view limitName(Limit limit) {
  constexpr std::string_view names[] = {"bandwidth", "compute", "launch"};
  return names[static_cast<size_t>(limit)];
}

Limit PartLatency::limit() const {
  if (launch_seconds > bandwidth_seconds && launch_seconds > compute_seconds) {
    return Limit::launch;
  }
  return compute_seconds > bandwidth_seconds ? Limit::compute : Limit::bandwidth;
}

PartLatency &PartLatency::operator+=(const PartLatency &other) {
  bytes += other.bytes;
  cached_bytes += other.cached_bytes;
  flops += other.flops;
  launches += other.launches;
  seconds += other.seconds;
  bandwidth_seconds += other.bandwidth_seconds;
  compute_seconds += other.compute_seconds;
  launch_seconds += other.launch_seconds;
  return *this;
}

int64_t Latency::picoseconds() const {
  constexpr double kMost = 9.2e18;
  const double value = total.seconds * 1e12;
  return value < kMost ? std::llround(value) : INT64_MAX;
}

double expectedDistinctExperts(int64_t experts, int64_t top_k, int64_t tokens) {
  if (tokens <= 1 || top_k >= experts) {
    return static_cast<double>(std::min(top_k, experts));
  }
  const auto all = static_cast<double>(experts);
  return all * (1 - raised(static_cast<double>(experts - top_k) / all, tokens));
}

Architecture layersByKind(Architecture architecture) {
  std::vector<budget::LayerGroup> kinds;
  for (const budget::LayerGroup &group : architecture.groups) {
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const budget::LayerGroup &other) {
      return other.layer == group.layer && other.visits == group.visits;
    });
    if (kind == kinds.end()) {
      kinds.push_back(group);
    } else {
      kind->layers += group.layers;
    }
  }
  architecture.groups = std::move(kinds);
  return architecture;
}

std::optional<Latency> predictLatency(const Architecture &architecture, const LatencyRequest &request) {
  return Prediction(layersByKind(architecture), request).run();
}

int64_t predictedPicoseconds(const Architecture &architecture, const LatencyRequest &request) {
  return predictedPicosecondsOfKinds(layersByKind(architecture), request);
}

int64_t predictedPicosecondsOfKinds(const Architecture &kinds, const LatencyRequest &request) {
  const std::optional<Latency> latency = Prediction(kinds, request).run();
  return latency ? latency->picoseconds() : INT64_MAX;
}

std::string durationText(double seconds) {
  constexpr const char *units[] = {"ns", "us", "ms", "s"};
  double value = seconds * 1e9;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) {
    value /= 1000;
  }
  return fmt::format("{:.{}f} {}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, units[unit]);
}

std::optional<ResidentBytes> residentBytes(const Architecture &architecture, const LatencyRequest &request) {
  const budget::AccountResult counts =
      budget::accountFor(architecture, budget::Context(budget::Attended::positions(1)));
  const std::optional<int64_t> elements =
      counts ? counts.account->kv.elements(request.step.positions) : std::nullopt;
  if (!elements) {
    return std::nullopt;
  }
  const auto weights = (CheckedInt(counts.account->total_params) * bytesOf(request.weights)).value();
  const auto kv = (CheckedInt(*elements) * request.step.batch * bytesOf(request.kv_cache)).value();
  return weights && kv ? std::optional(ResidentBytes{*weights, *kv}) : std::nullopt;
}

} // namespace smelt::planner
