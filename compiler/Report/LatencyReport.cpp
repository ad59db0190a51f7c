#include "compiler/Report/LatencyReport.h"

#include "compiler/Report/PlanFields.h"
#include "compiler/Report/Table.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::report {
namespace {

using nlohmann::ordered_json;
using planner::durationText;
using planner::LatencyPart;
using planner::PartLatency;

constexpr const char *kCaveat = "a roofline prediction with uniform routing, not a measurement";

// Three significant digits.
std::string shortNumber(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string scaled(double value, std::initializer_list<const char *> units) {
  const auto *unit = units.begin();
  for (; value >= 999.5 && unit + 1 != units.end(); ++unit) {
    value /= 1000;
  }
  return fmt::format("{} {}", shortNumber(value), *unit);
}

std::string bytesText(double bytes) { return scaled(bytes, {"B", "kB", "MB", "GB", "TB", "PB"}); }
std::string flopsText(double flops) {
  return scaled(flops, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"});
}

std::string expertsText(const PredictedStep &step) {
  return step.latency.distinct_experts > 0 ? fmt::format("{:.1f}", step.latency.distinct_experts) : "";
}

std::string memoryText(const PredictedStep &step) {
  const double free = step.request.device.memory_bytes - step.resident.total();
  return fmt::format("memory: {} of weights and {} of cache; {}",
                     bytesText(static_cast<double>(step.resident.weights)),
                     bytesText(static_cast<double>(step.resident.kv_cache)),
                     free >= 0 ? fmt::format("fits in {} with {} left",
                                             bytesText(step.request.device.memory_bytes), bytesText(free))
                               : fmt::format("does not fit in {}: {} too much",
                                             bytesText(step.request.device.memory_bytes), bytesText(-free)));
}

std::string componentsText(const planner::Latency &latency) {
  Table table;
  table.addRow(
      {"component", "time", "share", "limit", "read and written", "from cache", "compute", "launches"});
  const auto add = [&](std::string name, const PartLatency &part) {
    table.addRow({std::move(name), durationText(part.seconds),
                  fmt::format("{:.1f} %", 100 * part.seconds / latency.total.seconds),
                  std::string(planner::limitName(part.limit())), bytesText(part.bytes),
                  part.cached_bytes > 0 ? bytesText(part.cached_bytes) : "",
                  part.flops > 0 ? flopsText(part.flops) : "", groupDigits(part.launches)});
  };
  for (size_t i = 0; i < planner::kLatencyParts; ++i) {
    const auto part = static_cast<LatencyPart>(i);
    if (latency[part].bytes > 0 || latency[part].launches > 0) {
      add(std::string(planner::partName(part)), latency[part]);
    }
  }
  add("total", latency.total);
  return table.text();
}

ordered_json partJson(const PartLatency &part) {
  return {{"seconds", part.seconds},
          {"limit", planner::limitName(part.limit())},
          {"bandwidth_seconds", part.bandwidth_seconds},
          {"compute_seconds", part.compute_seconds},
          {"launch_seconds", part.launch_seconds},
          {"bytes", part.bytes},
          {"cached_bytes", part.cached_bytes},
          {"flops", part.flops},
          {"launches", part.launches}};
}

ordered_json predictionJson(const PredictedStep &step) {
  ordered_json json;
  json["seconds"] = step.latency.total.seconds;
  json["tokens_per_second"] = step.tokensPerSecond();
  json["peak_seconds"] = step.peak_seconds;
  json["distinct_experts"] = step.latency.distinct_experts;
  json.update(partJson(step.latency.total));
  json["memory"] = {{"weight_bytes", step.resident.weights},
                    {"kv_cache_bytes", step.resident.kv_cache},
                    {"device_bytes", step.request.device.memory_bytes},
                    {"fits", step.fitsMemory()}};
  for (size_t i = 0; i < planner::kLatencyParts; ++i) {
    const auto part = static_cast<LatencyPart>(i);
    json["components"][std::string(planner::partName(part))] = partJson(step.latency[part]);
  }
  return json;
}

} // namespace

double PredictedStep::tokensPerSecond() const {
  return static_cast<double>(request.step.tokens()) / latency.total.seconds;
}

std::optional<PredictedStep> predictStep(const budget::Architecture &architecture,
                                         const planner::LatencyRequest &request) {
  planner::LatencyRequest at_peak = request;
  at_peak.device = request.device.atPeak();
  const auto latency = planner::predictLatency(architecture, request);
  const auto peak = planner::predictLatency(architecture, at_peak);
  const auto resident = planner::residentBytes(architecture, request);
  if (!latency || !peak || !resident) {
    return std::nullopt;
  }
  return PredictedStep{request, *latency, peak->total.seconds, *resident};
}

std::string requestText(const planner::LatencyRequest &request) {
  return fmt::format("{}, weights in {}, KV cache in {}", request.device.name,
                     planner::formatName(request.weights), planner::formatName(request.kv_cache));
}

ordered_json requestJson(const planner::LatencyRequest &request) {
  return {{"device", request.device.name},
          {"weights_dtype", planner::formatName(request.weights)},
          {"kv_dtype", planner::formatName(request.kv_cache)}};
}

ordered_json stepJson(const planner::Step &step) {
  const bool decode = step.phase == planner::Phase::decode;
  return {{"phase", decode ? "decode" : "prefill"},
          {"batch", step.batch},
          {decode ? "context" : "prompt", step.positions}};
}

std::string latencyText(const std::string &model, const std::vector<PredictedStep> &steps) {
  Table table;
  table.addRow({"step", "time", "tokens/s", "at peak", "experts", "limit", "fits"});
  for (const PredictedStep &step : steps) {
    table.addRow({step.request.step.words(), durationText(step.latency.total.seconds),
                  shortNumber(step.tokensPerSecond()), durationText(step.peak_seconds), expertsText(step),
                  std::string(planner::limitName(step.latency.total.limit())),
                  step.fitsMemory() ? "yes" : "no"});
  }
  std::string text =
      fmt::format("{} on {}\n{}\n\n{}", model, requestText(steps.front().request), kCaveat, table.text());
  if (steps.size() == 1) {
    text += fmt::format("\n{}\n{}\n", componentsText(steps.front().latency), memoryText(steps.front()));
  }
  return text;
}

std::string latencyJson(const std::string &model, const std::vector<PredictedStep> &steps) {
  ordered_json json;
  json["model"] = model;
  json.update(requestJson(steps.front().request));
  for (const PredictedStep &step : steps) {
    ordered_json entry = stepJson(step.request.step);
    entry.update(predictionJson(step));
    json["steps"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

std::string latencyDiffText(const std::string &a, const std::vector<PredictedStep> &steps_a,
                            const std::string &b, const std::vector<PredictedStep> &steps_b) {
  Table table;
  table.addRow({"predicted time", a, b, "difference"});
  for (size_t i = 0; i < steps_a.size(); ++i) {
    const double left = steps_a[i].latency.total.seconds;
    const double right = steps_b[i].latency.total.seconds;
    table.addRow({steps_a[i].request.step.words(), durationText(left), durationText(right),
                  signedPercent(right / left - 1)});
  }
  return fmt::format("{}\n{}\n{}", requestText(steps_a.front().request), kCaveat, table.text());
}

ordered_json latencyDiffJson(const std::vector<PredictedStep> &a, const std::vector<PredictedStep> &b) {
  ordered_json json = requestJson(a.front().request);
  for (size_t i = 0; i < a.size(); ++i) {
    ordered_json entry = stepJson(a[i].request.step);
    entry["a"] = predictionJson(a[i]);
    entry["b"] = predictionJson(b[i]);
    entry["relative_difference"] = b[i].latency.total.seconds / a[i].latency.total.seconds - 1;
    json["steps"].push_back(std::move(entry));
  }
  return json;
}

} // namespace smelt::report
