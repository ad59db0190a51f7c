#include "compiler/Driver/Inspect.h"

#include "compiler/Driver/UserError.h"
#include "compiler/Report/Table.h"
#include "runtime/src/Text.h"
#include "smelt/runtime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

namespace smelt::driver {

namespace {

using nlohmann::ordered_json;
using report::Table;
using runtime::formatBytes;

struct CloseArtifact {
  void operator()(smelt_artifact *artifact) const { smelt_artifact_close(artifact); }
};
using ArtifactHandle = std::unique_ptr<smelt_artifact, CloseArtifact>;

void check(smelt_status status, char *error) {
  std::string message = error ? error : "";
  smelt_error_free(error);
  if (status != SMELT_ok) {
    throw UserError(status, message);
  }
}

ArtifactHandle open(const std::string &path) {
  smelt_artifact *artifact = nullptr;
  char *error = nullptr;
  smelt_status status = smelt_artifact_open(path.c_str(), &artifact, &error);
  check(status, error);
  return ArtifactHandle(artifact);
}

smelt_memory memoryNeeded(const smelt_artifact *artifact, const smelt_session_options &options) {
  smelt_memory memory = {};
  char *error = nullptr;
  smelt_status status = smelt_memory_needed(artifact, &options, &memory, &error);
  check(status, error);
  return memory;
}

// Calls `use` with every item that the query function `get` finds.
template <typename Info, typename Use>
void forEach(const smelt_artifact *artifact, bool (*get)(const smelt_artifact *, uint32_t, Info *), Use use) {
  Info info = {};
  for (uint32_t index = 0; get(artifact, index, &info); ++index) {
    use(info);
  }
}

std::span<const uint64_t> shapeOf(const smelt_weight_info &weight) { return {weight.shape, weight.rank}; }

uint64_t tensorCount(const smelt_weight_info &weight) {
  return uint64_t(std::max(weight.layers, 1U)) * std::max(weight.experts, 1U);
}

std::string codeOf(const smelt_device_info &device) {
  return device.machine_code && device.ptx ? "machine code, PTX" : device.ptx ? "PTX" : "machine code";
}

smelt_memory memoryOn(const smelt_artifact *artifact, smelt_session_options options,
                      const smelt_device_info &device) {
  options.device = device.name;
  return memoryNeeded(artifact, options);
}

std::string budgetLines(const smelt_artifact *artifact) {
  Table table;
  forEach<smelt_budget_info>(artifact, smelt_artifact_get_budget, [&](const smelt_budget_info &budget) {
    table.addRow({budget.name, report::groupDigits(static_cast<int64_t>(budget.value))});
  });
  return table.text();
}

std::string memoryLines(const smelt_artifact *artifact, const smelt_session_options &options) {
  smelt_memory memory = memoryNeeded(artifact, options);
  Table table;
  table.addRow({fmt::format("memory of {} sequence{}, {} positions", options.sequences,
                            options.sequences == 1 ? "" : "s", memory.capacity),
                ""});
  table.addRow({"KV cache", formatBytes(memory.state)});
  table.addRow({"workspace", formatBytes(memory.workspace + memory.tables + memory.scratch)});
  table.addRow({"weights, packed", formatBytes(memory.packed_weights)});
  table.addRow({"weights, mapped", formatBytes(memory.weights)});
  table.addRow({"peak of a run", formatBytes(memory.peak)});
  return table.text();
}

std::string variantTable(const smelt_artifact *artifact) {
  Table table;
  table.addRow({"code", "size", "runs here"});
  forEach<smelt_variant_info>(artifact, smelt_artifact_get_variant, [&](const smelt_variant_info &variant) {
    table.addRow({variant.isa, formatBytes(variant.size), variant.supported ? "yes" : "no"});
  });
  return table.text();
}

// What a GPU of the target would take for one sequence, and what code there is.
std::string deviceTable(const smelt_artifact *artifact, const smelt_session_options &options) {
  Table table;
  table.addRow({"device", "code", "size", "launches per short step", "weights", "KV cache", "workspace"});
  bool any = false;
  forEach<smelt_device_info>(artifact, smelt_artifact_get_device, [&](const smelt_device_info &device) {
    smelt_memory memory = memoryOn(artifact, options, device);
    table.addRow({device.name, codeOf(device), formatBytes(device.size),
                  std::to_string(device.launches_per_step), formatBytes(memory.device_weights),
                  formatBytes(memory.state), formatBytes(memory.workspace + memory.tables + memory.scratch)});
    any = true;
  });
  return any ? "\n" + table.text() : "";
}

std::string kernelTable(const smelt_artifact *artifact) {
  Table table(/*left_columns=*/2);
  table.addRow({"kernel", "role", "calls per step"});
  forEach<smelt_kernel_info>(artifact, smelt_artifact_get_kernel, [&](const smelt_kernel_info &kernel) {
    table.addRow({kernel.name, kernel.role, std::to_string(kernel.calls_per_step)});
  });
  return table.text();
}

std::string weightTable(const smelt_artifact *artifact) {
  Table table;
  table.addRow({"weights", "layers", "shape", "type", "tensors"});
  forEach<smelt_weight_info>(artifact, smelt_artifact_get_weight, [&](const smelt_weight_info &weight) {
    table.addRow({weight.name, report::layerRange(weight.first_layer, weight.layers),
                  runtime::formatShape(shapeOf(weight)), smelt_dtype_name(weight.dtype),
                  std::to_string(tensorCount(weight))});
  });
  return table.text();
}

std::string textOf(const std::string &path, const smelt_artifact *artifact,
                   const smelt_session_options &options) {
  smelt_artifact_info info = {};
  smelt_artifact_get_info(artifact, &info);
  std::string head =
      fmt::format("artifact {}, {}\nformat {}.{}, made by {} for {}\nmodel {}, vocabulary {}, {} tensors "
                  "of weights in {}, {} kernel calls per step\n",
                  path, formatBytes(info.file_size), info.version_major, info.version_minor, info.producer,
                  info.target, info.model_name, info.vocab_size, info.tensor_count,
                  smelt_dtype_name(info.weights_dtype), info.calls_per_step);
  return fmt::format("{}\n{}\n{}\n{}{}\n{}\n{}", head, budgetLines(artifact), memoryLines(artifact, options),
                     variantTable(artifact), deviceTable(artifact, options), kernelTable(artifact),
                     weightTable(artifact));
}

std::string jsonOf(const smelt_artifact *artifact, const smelt_session_options &options) {
  smelt_artifact_info info = {};
  smelt_artifact_get_info(artifact, &info);
  smelt_memory memory = memoryNeeded(artifact, options);
  ordered_json json;
  json["kind"] = "artifact";
  json["format"] = fmt::format("{}.{}", info.version_major, info.version_minor);
  json["producer"] = info.producer;
  json["target"] = info.target;
  json["name"] = info.model_name;
  json["vocab_size"] = info.vocab_size;
  json["weights_dtype"] = smelt_dtype_name(info.weights_dtype);
  json["spec"] = info.spec_toml;
  forEach<smelt_budget_info>(artifact, smelt_artifact_get_budget, [&](const smelt_budget_info &budget) {
    json["budget"][budget.name] = budget.value;
  });
  json["memory"] = {{"sequences", options.sequences},
                    {"positions", memory.capacity},
                    {"kv_cache", memory.state},
                    {"workspace", memory.workspace + memory.tables + memory.scratch},
                    {"weights", info.weight_bytes},
                    {"packed_weights", memory.packed_weights},
                    {"peak", memory.peak}};
  forEach<smelt_variant_info>(artifact, smelt_artifact_get_variant, [&](const smelt_variant_info &variant) {
    json["variants"].push_back(
        {{"isa", variant.isa}, {"bytes", variant.size}, {"supported", variant.supported}});
  });
  json["devices"] = ordered_json::array();
  forEach<smelt_device_info>(artifact, smelt_artifact_get_device, [&](const smelt_device_info &device) {
    smelt_memory needed = memoryOn(artifact, options, device);
    json["devices"].push_back({{"name", device.name},
                               {"machine_code", device.machine_code},
                               {"ptx", device.ptx},
                               {"bytes", device.size},
                               {"programs", device.program_count},
                               {"launches_per_step", device.launches_per_step},
                               {"memory",
                                {{"weights", needed.device_weights},
                                 {"kv_cache", needed.state},
                                 {"workspace", needed.workspace + needed.tables + needed.scratch}}}});
  });
  forEach<smelt_kernel_info>(artifact, smelt_artifact_get_kernel, [&](const smelt_kernel_info &kernel) {
    json["kernels"].push_back(
        {{"name", kernel.name}, {"role", kernel.role}, {"calls_per_step", kernel.calls_per_step}});
  });
  forEach<smelt_weight_info>(artifact, smelt_artifact_get_weight, [&](const smelt_weight_info &weight) {
    std::span<const uint64_t> shape = shapeOf(weight);
    json["weights"].push_back({{"name", weight.name},
                               {"dtype", smelt_dtype_name(weight.dtype)},
                               {"shape", std::vector<uint64_t>(shape.begin(), shape.end())},
                               {"first_layer", weight.first_layer},
                               {"layers", weight.layers},
                               {"experts", weight.experts}});
  });
  return json.dump(2) + "\n";
}

} // namespace

std::string inspectArtifact(const std::string &path, bool json, const InspectedSession &session) {
  ArtifactHandle artifact = open(path);
  smelt_session_options options;
  smelt_session_options_init(&options);
  options.sequences = session.sequences;
  options.capacity = session.positions;
  options.max_step_tokens = session.step_tokens;
  options.max_logit_rows = session.sequences; // as `run` has it: of each sequence's last token
  options.threads = session.threads;
  return json ? jsonOf(artifact.get(), options) : textOf(path, artifact.get(), options);
}

} // namespace smelt::driver
