// Two models side by side.
#include "compiler/Report/AccountNumbers.h"
#include "compiler/Report/Table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::report {
namespace {

using nlohmann::ordered_json;

std::string relative(int64_t a, int64_t b) {
  if (a == b) {
    return "=";
  }
  return a == 0 ? "new"
                : fmt::format("{:+.2f} %", 100 * (static_cast<double>(b) / static_cast<double>(a) - 1));
}

// Shape, budgets, details and components, each with one row in both.
std::vector<NamedCount> rowsOf(const CountedModel &model) {
  std::vector<NamedCount> rows = {
      {"vocab_size", "vocabulary", model.architecture.vocab_size},
      {"hidden_size", "hidden size", model.architecture.hidden_size},
  };
  int64_t layers = 0;
  for (const budget::LayerGroup &group : model.architecture.groups) {
    layers += group.layers;
  }
  rows.push_back({"layers", "layers", layers});
  for (const auto &list : {budgetNumbers(model.account), detailNumbers(model.account)}) {
    rows.insert(rows.end(), list.begin(), list.end());
  }
  return rows;
}

std::string numbersText(const CountedModel &a, const CountedModel &b) {
  Table table;
  table.addRow({"", a.architecture.name, b.architecture.name, "difference"});
  const std::vector<NamedCount> left = rowsOf(a);
  const std::vector<NamedCount> right = rowsOf(b);
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i].value != 0 || right[i].value != 0) {
      table.addRow({std::string(left[i].label), groupDigits(left[i].value), groupDigits(right[i].value),
                    relative(left[i].value, right[i].value)});
    }
  }
  return table.text();
}

std::string componentsText(const CountedModel &a, const CountedModel &b) {
  Table table;
  table.addRow({"component", "parameters", "", "difference", "forward FLOPs", "", "difference"});
  for (size_t i = 0; i < budget::kComponents; ++i) {
    const budget::ComponentAccount &left = a.account.components[i];
    const budget::ComponentAccount &right = b.account.components[i];
    if (left.params == 0 && right.params == 0 && left.forward_flops == 0 && right.forward_flops == 0) {
      continue;
    }
    table.addRow({std::string(budget::componentName(static_cast<budget::Component>(i))),
                  groupDigits(left.params), groupDigits(right.params), relative(left.params, right.params),
                  groupDigits(left.forward_flops), groupDigits(right.forward_flops),
                  relative(left.forward_flops, right.forward_flops)});
  }
  return table.text();
}

std::string layersText(const CountedModel &model) {
  std::string text = model.architecture.name + ":\n";
  for (const std::string &line : describeLayers(model.architecture)) {
    text += "  " + line + "\n";
  }
  return text;
}

ordered_json modelJson(const CountedModel &model) {
  ordered_json json;
  json["name"] = model.architecture.name;
  for (const NamedCount &row : rowsOf(model)) {
    json[std::string(row.key)] = row.value;
  }
  return json;
}

} // namespace

std::string diffText(const CountedModel &a, const CountedModel &b, const budget::Context &context,
                     const std::vector<PredictedStep> &steps_a, const std::vector<PredictedStep> &steps_b) {
  std::string text = fmt::format("{}{}\nFLOPs with {}\n\n{}\n{}", layersText(a), layersText(b),
                                 context.words(), numbersText(a, b), componentsText(a, b));
  if (!steps_a.empty()) {
    text += "\n" + latencyDiffText(a.architecture.name, steps_a, b.architecture.name, steps_b);
  }
  return text;
}

std::string diffJson(const CountedModel &a, const CountedModel &b, const budget::Context &context,
                     const std::vector<PredictedStep> &steps_a, const std::vector<PredictedStep> &steps_b) {
  ordered_json json;
  json["context"] = context.text();
  json["a"] = modelJson(a);
  json["b"] = modelJson(b);
  const std::vector<NamedCount> left = rowsOf(a);
  const std::vector<NamedCount> right = rowsOf(b);
  for (size_t i = 0; i < left.size(); ++i) {
    // Of nothing there is no part: null.
    json["relative_difference"][std::string(left[i].key)] =
        left[i].value == 0
            ? (right[i].value == 0 ? ordered_json(0) : ordered_json())
            : ordered_json(static_cast<double>(right[i].value) / static_cast<double>(left[i].value) - 1);
  }
  if (!steps_a.empty()) {
    json["latency"] = latencyDiffJson(steps_a, steps_b);
  }
  return json.dump(2) + "\n";
}

} // namespace smelt::report
