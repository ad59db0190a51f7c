// Predicted latencies as text and JSON.
#pragma once

#include "compiler/Planner/Latency.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace smelt::report {

// A prediction with what it is judged against.
struct PredictedStep {
  planner::LatencyRequest request;
  planner::Latency latency;
  double peak_seconds = 0; // at the data sheet's peaks, without launches and caches
  planner::ResidentBytes resident;

  double tokensPerSecond() const;
  bool fitsMemory() const { return resident.total() <= request.device.memory_bytes; }
};

// Nothing when a count does not fit in 64 bits.
std::optional<PredictedStep> predictStep(const budget::Architecture &architecture,
                                         const planner::LatencyRequest &request);

// One row for each step, all on one device with one kind of numbers; for a single step its components, too.
std::string latencyText(const std::string &model, const std::vector<PredictedStep> &steps);
// {"model", "device", "weights_dtype", "kv_dtype", "steps"}; a step has "phase", "batch", "context" or
// "prompt", "seconds", "tokens_per_second", "peak_seconds", "limit", "distinct_experts", "bytes", "flops",
// "launches", "memory" and "components".
std::string latencyJson(const std::string &model, const std::vector<PredictedStep> &steps);

// The same steps of two models side by side.
std::string latencyDiffText(const std::string &a, const std::vector<PredictedStep> &steps_a,
                            const std::string &b, const std::vector<PredictedStep> &steps_b);
// {"device", "weights_dtype", "kv_dtype", "steps"}; a step has "a" and "b" as above, and
// "relative_difference" of the seconds.
nlohmann::ordered_json latencyDiffJson(const std::vector<PredictedStep> &a,
                                       const std::vector<PredictedStep> &b);

// The device and the numbers, the first keys of both objects above.
nlohmann::ordered_json requestJson(const planner::LatencyRequest &request);
// "phase", "batch" and "context" or "prompt".
nlohmann::ordered_json stepJson(const planner::Step &step);
// "NVIDIA H200 SXM, weights in bf16, KV cache in bf16"
std::string requestText(const planner::LatencyRequest &request);

} // namespace smelt::report
