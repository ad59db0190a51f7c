#include "compiler/Driver/Inspect.h"

#include "compiler/Budget/Budget.h"
#include "compiler/Budget/Memory.h"
#include "compiler/Driver/SpecInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Report/BudgetReport.h"
#include "compiler/Report/Table.h"
#include "compiler/Spec/SpecNames.h"
#include "compiler/Spec/WeightTable.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace smelt::driver {

namespace {

using nlohmann::ordered_json;
using report::Table;

// Positions for which the KV cache is quoted.
constexpr int64_t quoted_positions = 2048;

struct Needs {
  budget::Memory f32, bf16;
};

Needs memoryNeeds(const std::string &path, const spec::ModelSpec &spec) {
  std::optional<budget::Memory> f32 = budget::estimateMemory(spec, 4, quoted_positions);
  std::optional<budget::Memory> bf16 = budget::estimateMemory(spec, 2, quoted_positions);
  if (!f32 || !bf16) {
    throw UserError(SMELT_spec, path + ": its memory does not fit in 64 bits");
  }
  return {*f32, *bf16};
}

budget::Budget budgetOf(const std::string &path, const spec::ModelSpec &spec) {
  budget::BudgetResult result = budget::computeBudget(spec);
  if (!result) {
    throw UserError(SMELT_spec, path + ": " + result.error);
  }
  return *result.budget;
}

std::string bytesText(int64_t bytes) { return runtime::formatBytes(static_cast<uint64_t>(bytes)); }

std::string segmentTable(const spec::ModelSpec &spec) {
  Table table;
  table.addRow({"segment", "layers", "visits", "order", "residual scale", "FFN", "query heads", "KV heads",
                "head size"});
  for (size_t i = 0; i < spec.segments.size(); ++i) {
    const spec::Segment &segment = spec.segments[i];
    table.addRow({std::to_string(i + 1), report::layerRange(spec.firstLayer(i), segment.layers),
                  std::to_string(segment.visits), std::string(spec::toString(segment.order)),
                  fmt::format("{}", segment.residual_scale), std::string(spec::toString(segment.ffn)),
                  std::to_string(segment.attention.query_heads), std::to_string(segment.attention.kv_heads),
                  std::to_string(segment.attention.head_dim)});
  }
  return table.text();
}

std::string weightsTable(const spec::ModelSpec &spec) {
  Table table;
  table.addRow({"weights", "layers", "shape", "tensors"});
  for (const spec::WeightDecl &decl : spec::weightTable(spec)) {
    table.addRow({decl.name, report::layerRange(decl.first_layer, decl.layers),
                  fmt::format("[{}]", fmt::join(decl.shape, ", ")), std::to_string(decl.tensors())});
  }
  return table.text();
}

std::string textOf(const std::string &path, const spec::ModelSpec &spec) {
  Needs needs = memoryNeeds(path, spec);
  Table memory;
  memory.addRow({"weights in bf16", bytesText(needs.bf16.weight_bytes)});
  memory.addRow({"weights in f32", bytesText(needs.f32.weight_bytes)});
  memory.addRow(
      {fmt::format("KV cache of {} positions in bf16", quoted_positions), bytesText(needs.f32.kv_bytes / 2)});
  memory.addRow(
      {fmt::format("KV cache of {} positions in f32", quoted_positions), bytesText(needs.f32.kv_bytes)});
  std::string moe = spec.moe ? fmt::format(", {} experts of width {}, {} active", spec.moe->experts,
                                           spec.moe->expert_hidden_size, spec.moe->top_k)
                             : "";
  return fmt::format("spec {}\nvocabulary {}, hidden size {}{}\n\n{}\n{}\n{}\n{}", path, spec.vocab_size,
                     spec.hidden_size, moe, segmentTable(spec),
                     report::budgetTable(spec, budgetOf(path, spec), budget::Attended()), memory.text(),
                     weightsTable(spec));
}

std::string jsonOf(const std::string &path, const spec::ModelSpec &spec) {
  Needs needs = memoryNeeds(path, spec);
  ordered_json json;
  json["kind"] = "spec";
  json["name"] = spec.name;
  json["layers"] = spec.physicalLayers();
  json["budget"] = ordered_json::parse(report::budgetJson(budgetOf(path, spec)));
  json["memory"] = {{"weights_bf16", needs.bf16.weight_bytes},
                    {"weights_f32", needs.f32.weight_bytes},
                    {"kv_cache", needs.f32.kv_bytes},
                    {"kv_positions", quoted_positions}};
  json["weights"] = ordered_json::array();
  for (const spec::WeightDecl &decl : spec::weightTable(spec)) {
    json["weights"].push_back({{"name", decl.name},
                               {"shape", decl.shape},
                               {"first_layer", decl.first_layer},
                               {"layers", decl.layers},
                               {"experts", decl.experts}});
  }
  return json.dump(2) + "\n";
}

} // namespace

std::string inspectSpec(const std::string &path, bool json) {
  spec::ModelSpec spec = loadSpec(path);
  return json ? jsonOf(path, spec) : textOf(path, spec);
}

} // namespace smelt::driver
