// The options that say for which device, and for which forward pass, latency is predicted.
#pragma once

#include "compiler/Planner/Latency.h"
#include "compiler/Report/LatencyReport.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace smelt::driver {

class LatencyOptions {
public:
  // `prefix` comes before batch, context and prompt: "--latency-batch" where --context means another thing.
  void declare(CLI::App &app, const std::string &prefix);
  CLI::Option *deviceOption() const { return device_option; }

  bool asked() const { return !device.empty(); }
  // Every batch with every context, then with every prompt; without either, a context of 1024. Weights are in
  // `stored` unless asked otherwise, the cache as the weights but never narrower than bf16. Throws UserError.
  std::vector<planner::LatencyRequest> requests(planner::NumberFormat stored) const;

private:
  std::string prefix;
  std::string device;
  CLI::Option *device_option = nullptr;
  std::vector<int64_t> batches, contexts, prompts;
  std::optional<planner::NumberFormat> weights, kv_cache;
};

// A shipped device, or one of a file that ends in ".toml". Throws UserError.
planner::DeviceModel loadDevice(const std::string &name);

// Throws UserError for counts that do not fit; `path` names the model.
report::PredictedStep predicted(const budget::Architecture &architecture,
                                const planner::LatencyRequest &request, const std::string &path);

// What a checkpoint's numbers of so many bytes are treated as: float64 as f32; 0, a spec's, as bf16.
planner::NumberFormat formatOfBytes(int64_t bytes_per_weight);

} // namespace smelt::driver
