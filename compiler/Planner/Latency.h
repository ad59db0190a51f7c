// How long one forward pass takes on a device: a roofline over exact bytes and FLOPs. A prediction, not a
// measurement; docs/latency.md states what it assumes.
#pragma once

#include "compiler/Budget/Architecture.h"
#include "compiler/Planner/DeviceModel.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace smelt::planner {

enum class Phase { decode, prefill };

// One forward pass of `batch` sequences.
struct Step {
  static constexpr int64_t kMaxBatch = int64_t{1} << 20;

  Phase phase = Phase::decode;
  int64_t batch = 1;
  // Decode: what the one new token of each sequence attends to, itself included. Prefill: tokens of each
  // prompt. At most budget::Context::kMaxLength.
  int64_t positions = 1024;

  // That go through the layers.
  int64_t tokens() const { return phase == Phase::decode ? batch : batch * positions; }
  // "decode of 1 sequence with a context of 1024" or "prefill of 4 prompts of 512".
  std::string words() const;
  bool operator==(const Step &) const = default;
};

struct LatencyRequest {
  DeviceModel device;
  Step step = {};
  NumberFormat weights = NumberFormat::bf16;
  NumberFormat kv_cache = NumberFormat::bf16;
};

// The components of budget::Component, and what reads and writes the KV cache.
enum class LatencyPart {
  attention, // projections
  cache,     // scores and weighted values
  router,
  experts,
  shared,
  mlp,
  norms,
  adapters,
  embedding,
  head
};
inline constexpr size_t kLatencyParts = 10;
std::string_view partName(LatencyPart part);

enum class Limit { bandwidth, compute, launch };
std::string_view limitName(Limit limit);

// Kernels of a kind, all together.
struct PartLatency {
  double bytes = 0; // from memory and from cache; distinct experts are expected numbers, so it can be broken
  double cached_bytes = 0; // of these, from cache
  double flops = 0;
  int64_t launches = 0;
  double seconds = 0;
  // Of the seconds, those of kernels that wait for bytes, of kernels that compute, and of launches.
  double bandwidth_seconds = 0;
  double compute_seconds = 0;
  double launch_seconds = 0;

  Limit limit() const; // the largest of the three
  PartLatency &operator+=(const PartLatency &other);
};

struct Latency {
  std::array<PartLatency, kLatencyParts> parts;
  PartLatency total;
  double distinct_experts = 0; // expected in one visit of a layer with experts, the most of any; 0: none

  const PartLatency &operator[](LatencyPart part) const { return parts[static_cast<size_t>(part)]; }
  int64_t picoseconds() const; // rounded to the nearest; INT64_MAX when there are more
};

// Distinct experts that `tokens` tokens reach when each chooses top_k of the experts independently and
// uniformly: E (1 - (1 - k/E)^tokens).
double expectedDistinctExperts(int64_t experts, int64_t top_k, int64_t tokens);

// Nothing when a count does not fit in 64 bits.
std::optional<Latency> predictLatency(const budget::Architecture &architecture,
                                      const LatencyRequest &request);

// The same in whole picoseconds; INT64_MAX where there is no prediction.
int64_t predictedPicoseconds(const budget::Architecture &architecture, const LatencyRequest &request);

// The model with its layers of each kind in one group: where they stand in the stack plays no part in a
// prediction.
budget::Architecture layersByKind(budget::Architecture architecture);
// predictedPicoseconds() of a model that is already in kinds, for searches that predict many of its shapes.
int64_t predictedPicosecondsOfKinds(const budget::Architecture &kinds, const LatencyRequest &request);

// What must be in memory: all weights, and the cache of every sequence after the step.
struct ResidentBytes {
  int64_t weights = 0;
  int64_t kv_cache = 0;

  double total() const { return static_cast<double>(weights) + static_cast<double>(kv_cache); }
};

// Nothing when a count does not fit in 64 bits.
std::optional<ResidentBytes> residentBytes(const budget::Architecture &architecture,
                                           const LatencyRequest &request);

// "351 us", "1.23 ms": three significant digits.
std::string durationText(double seconds);

} // namespace smelt::planner
