#include "compiler/Report/BudgetReport.h"

#include "compiler/Report/Table.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::report {

namespace {

// The JSON key in words: "kv_elements_per_token" to "KV elements per token".
std::string words(std::string_view key) {
  std::string text(key);
  std::replace(text.begin(), text.end(), '_', ' ');
  for (auto [from, to] : {std::pair{"non embedding", "non-embedding"},
                          {"params", "parameters"},
                          {"kv", "KV"},
                          {"flops", "FLOPs"}}) {
    if (size_t position = text.find(from); position != std::string::npos) {
      text.replace(position, std::strlen(from), to);
    }
  }
  return text;
}

} // namespace

std::string budgetTable(const spec::ModelSpec &spec, const budget::Budget &budget,
                        budget::Attended attended) {
  Table table;
  for (const auto &[key, value] : budget::fields(budget)) {
    table.addRow({words(key), groupDigits(value), value >= 1000 ? shortCount(value) : ""});
  }
  return fmt::format("{}: {} layers, {} executed; FLOPs with {} attended positions\n\n{}", spec.name,
                     spec.physicalLayers(), spec.executedLayers(), attended.text(), table.text());
}

std::string budgetJson(const budget::Budget &budget) {
  nlohmann::ordered_json json;
  for (const auto &[key, value] : budget::fields(budget)) {
    json[std::string(key)] = value;
  }
  return json.dump(2) + "\n";
}

} // namespace smelt::report
