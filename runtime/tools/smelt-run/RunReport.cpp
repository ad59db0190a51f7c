#include "runtime/tools/smelt-run/RunReport.h"

#include "runtime/src/SystemMemory.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace smelt::runtime {
namespace {

// Kernels that ran, the longest first.
std::vector<smelt_kernel_profile> profileOf(const RunModel &model) {
  std::vector<smelt_kernel_profile> kernels;
  smelt_kernel_profile kernel;
  for (uint32_t i = 0; smelt_session_get_profile(model.session.get(), i, &kernel); ++i) {
    if (kernel.calls) {
      kernels.push_back(kernel);
    }
  }
  std::sort(kernels.begin(), kernels.end(), [](const auto &a, const auto &b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : std::string_view(a.kernel) < b.kernel;
  });
  return kernels;
}

std::string profileTable(const std::vector<smelt_kernel_profile> &kernels) {
  double all = 1e-12;
  size_t nameWidth = 6, roleWidth = 4;
  for (const smelt_kernel_profile &kernel : kernels) {
    all += kernel.seconds;
    nameWidth = std::max(nameWidth, printable(kernel.kernel).size());
    roleWidth = std::max(roleWidth, printable(kernel.role).size());
  }
  std::string out = fmt::format("{:<{}} {:<{}} {:>8} {:>10} {:>6} {:>8} {:>9}\n", "kernel", nameWidth, "role",
                                roleWidth, "calls", "seconds", "share", "GB/s", "GFLOP/s");
  for (const smelt_kernel_profile &kernel : kernels) {
    double seconds = std::max(kernel.seconds, 1e-12);
    out +=
        fmt::format("{:<{}} {:<{}} {:>8} {:>10.6f} {:>5.1f}% {:>8.2f} {:>9.2f}\n", printable(kernel.kernel),
                    nameWidth, printable(kernel.role), roleWidth, kernel.calls, kernel.seconds,
                    100 * kernel.seconds / all, kernel.bytes / seconds * 1e-9, kernel.flops / seconds * 1e-9);
  }
  return out;
}

std::string phaseLine(const char *name, const RunPhase &phase) {
  return fmt::format("{}: {} token{} in {:.3f} s, {:.2f} tokens/s\n", name, phase.tokens,
                     phase.tokens == 1 ? "" : "s", phase.seconds, phase.tokensPerSecond());
}

bool onDevice(const smelt_session_options &options) { return std::string_view(options.device) != "cpu"; }

nlohmann::ordered_json phaseJson(const RunPhase &phase) {
  return {
      {"tokens", phase.tokens}, {"seconds", phase.seconds}, {"tokens_per_second", phase.tokensPerSecond()}};
}

} // namespace

std::string textReport(const RunModel &model, const RunResult &result) {
  smelt_session_options options;
  smelt_memory memory;
  smelt_session_get_options(model.session.get(), &options);
  smelt_session_get_memory(model.session.get(), &memory);
  std::string out = fmt::format("model: {}, ", printable(model.info.model_name));
  if (onDevice(options)) {
    out += fmt::format("on {}, code {}, weights {}, session {} with them (KV cache {}), long products by {}\n",
                       options.device, printable(options.isa), formatBytes(memory.device_weights),
                       formatBytes(memory.total), formatBytes(memory.state),
                       smelt_session_gemm(model.session.get()));
  } else {
    out += fmt::format("code {}, {} thread{}, weights {}, session {} (KV cache {})\n", printable(options.isa),
                       options.threads, options.threads == 1 ? "" : "s", formatBytes(memory.weights),
                       formatBytes(memory.total), formatBytes(memory.state));
    out += fmt::format("memory: packed weights {} ({} in large pages), peak {}, {} predicted\n",
                       formatBytes(memory.packed_weights), formatBytes(memory.packed_huge),
                       formatBytes(peakResidentMemory()), formatBytes(memory.peak));
  }
  out += phaseLine("prefill", result.prefill);
  if (result.decode.tokens) {
    out += phaseLine("decode", result.decode);
  }
  if (options.profile) {
    out += profileTable(profileOf(model));
  }
  return out;
}

std::string jsonReport(const RunModel &model, const RunResult &result) {
  smelt_session_options options;
  smelt_memory memory;
  smelt_session_get_options(model.session.get(), &options);
  smelt_session_get_memory(model.session.get(), &memory);
  nlohmann::ordered_json json;
  json["model"] = model.info.model_name;
  json["device"] = options.device;
  json["isa"] = options.isa;
  json["threads"] = options.threads;
  json["capacity"] = options.capacity;
  json["sequences"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < result.prompts.size(); ++i) {
    json["sequences"].push_back({{"prompt", result.prompts[i]}, {"generated", result.generated[i]}});
  }
  json["prefill"] = phaseJson(result.prefill);
  json["decode"] = phaseJson(result.decode);
  json["memory"] = {{"workspace_bytes", memory.workspace}, {"state_bytes", memory.state},
                    {"table_bytes", memory.tables},        {"scratch_bytes", memory.scratch},
                    {"total_bytes", memory.total},         {"weight_bytes", memory.weights}};
  if (onDevice(options)) {
    json["memory"]["device_weight_bytes"] = memory.device_weights;
    json["memory"]["pinned_bytes"] = memory.pinned;
    json["gemm"] = smelt_session_gemm(model.session.get());
  } else {
    json["memory"]["packed_weight_bytes"] = memory.packed_weights;
    json["memory"]["packed_huge_page_bytes"] = memory.packed_huge;
    json["memory"]["predicted_peak_bytes"] = memory.peak;
  }
  json["memory"]["peak_resident_bytes"] = peakResidentMemory();
  if (options.profile) {
    json["profile"] = nlohmann::ordered_json::array();
    for (const smelt_kernel_profile &kernel : profileOf(model)) {
      json["profile"].push_back({{"kernel", kernel.kernel},
                                 {"role", kernel.role},
                                 {"calls", kernel.calls},
                                 {"seconds", kernel.seconds},
                                 {"bytes", kernel.bytes},
                                 {"flops", kernel.flops}});
    }
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

} // namespace smelt::runtime
