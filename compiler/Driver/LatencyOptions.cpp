#include "compiler/Driver/LatencyOptions.h"

#include "compiler/Budget/Context.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/UserError.h"

namespace smelt::driver {

namespace {

using planner::NumberFormat;
using planner::Step;

CLI::Validator numberFormat() {
  return choice<NumberFormat>(
      {{"bf16", NumberFormat::bf16}, {"f32", NumberFormat::f32}, {"fp8", NumberFormat::fp8}});
}

} // namespace

void LatencyOptions::declare(CLI::App &app, const std::string &option_prefix) {
  prefix = option_prefix;
  std::vector<std::string_view> ids;
  for (const planner::ShippedDevice &shipped : planner::shippedDevices()) {
    ids.push_back(shipped.id);
  }
  device_option =
      app.add_option("--device", device,
                     fmt::format("Predict latency on a device: {}, or a TOML file", fmt::join(ids, ", ")))
          ->type_name("NAME|FILE");
  const std::tuple<const char *, std::vector<int64_t> *, uint64_t, const char *> lists[] = {
      {"batch", &batches, Step::kMaxBatch, "Sequences of a forward pass (default 1)"},
      {"context", &contexts, budget::Context::kMaxLength,
       "Decode: positions that a new token attends to (default 1024)"},
      {"prompt", &prompts, budget::Context::kMaxLength, "Prefill: tokens of each prompt"}};
  for (const auto &[name, values, most, help] : lists) {
    app.add_option(fmt::format("--{}{}", prefix, name), *values, help)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(wholeNumber(1, most))
        ->needs(device_option)
        ->type_name("N,...");
  }
  app.add_option("--weights-dtype", weights, "Numbers of the weights (default: the checkpoint's; bf16)")
      ->transform(numberFormat())
      ->needs(device_option)
      ->type_name("bf16|f32|fp8");
  app.add_option("--kv-dtype", kv_cache, "Numbers of the KV cache (default: as the weights, or bf16 for fp8)")
      ->transform(numberFormat())
      ->needs(device_option)
      ->type_name("bf16|f32|fp8");
}

std::vector<planner::LatencyRequest> LatencyOptions::requests(NumberFormat stored) const {
  planner::LatencyRequest request{.device = loadDevice(device), .weights = weights.value_or(stored)};
  request.kv_cache =
      kv_cache.value_or(request.weights == NumberFormat::fp8 ? NumberFormat::bf16 : request.weights);
  std::vector<planner::LatencyRequest> requests;
  const auto add = [&](planner::Phase phase, const std::vector<int64_t> &positions) {
    for (const int64_t batch : batches.empty() ? std::vector<int64_t>{Step().batch} : batches) {
      for (const int64_t count : positions) {
        request.step = {phase, batch, count};
        requests.push_back(request);
      }
    }
  };
  add(planner::Phase::decode,
      contexts.empty() && prompts.empty() ? std::vector<int64_t>{Step().positions} : contexts);
  add(planner::Phase::prefill, prompts);
  return requests;
}

planner::DeviceModel loadDevice(const std::string &name) {
  if (!name.ends_with(".toml")) {
    if (std::optional<planner::DeviceModel> shipped = planner::shippedDevice(name)) {
      return std::move(*shipped);
    }
    throw UserError(SMELT_usage, "--device: " + planner::unknownDevice(name));
  }
  planner::DeviceResult result = planner::readDeviceFile(name);
  if (result) {
    return std::move(*result.device);
  }
  const std::string problems = result.diagnostics.text();
  if (result.status != SMELT_spec) {
    throw UserError(result.status, problems);
  }
  const size_t count = result.diagnostics.size();
  throw UserError(SMELT_spec,
                  fmt::format("'{}' has {} problem{}:\n{}", name, count, count == 1 ? "" : "s", problems));
}

report::PredictedStep predicted(const budget::Architecture &architecture,
                                const planner::LatencyRequest &request, const std::string &path) {
  std::optional<report::PredictedStep> step = report::predictStep(architecture, request);
  if (!step) {
    throw UserError(SMELT_spec, fmt::format("{}: the bytes and FLOPs of a {} do not fit in 64 bits", path,
                                            request.step.words()));
  }
  return std::move(*step);
}

planner::NumberFormat formatOfBytes(int64_t bytes_per_weight) {
  if (bytes_per_weight >= 4) {
    return NumberFormat::f32;
  }
  return bytes_per_weight == 1 ? NumberFormat::fp8 : NumberFormat::bf16;
}

} // namespace smelt::driver
