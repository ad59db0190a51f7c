#include "compiler/Report/AccountReport.h"

#include "compiler/Report/AccountNumbers.h"
#include "compiler/Report/Table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::report {
namespace {

using nlohmann::ordered_json;

std::string shortOrNothing(int64_t value) { return value >= 1000 ? shortCount(value) : ""; }

std::string numbersText(const CountedModel &model, bool details) {
  Table table;
  const auto add = [&](std::string_view label, int64_t value) {
    table.addRow({std::string(label), groupDigits(value), shortOrNothing(value)});
  };
  for (const NamedCount &row : budgetNumbers(model.account)) {
    add(row.label, row.value);
  }
  if (model.bytes_per_weight > 0) {
    if (const auto bytes = kvBytesPerToken(model)) {
      add(fmt::format("KV bytes per token in {}", model.dtype), *bytes);
    }
  }
  if (!details) {
    return table.text();
  }
  for (const NamedCount &row : detailNumbers(model.account)) {
    // Zeros are about parts that the model does not have.
    if (row.value != 0) {
      add(row.label, row.value);
    }
  }
  for (const auto &[dtype, bytes] : weightBytes(model.account)) {
    add(fmt::format("weight bytes in {}", dtype), bytes);
  }
  return table.text();
}

std::string componentsText(const budget::Account &account) {
  Table table;
  table.addRow({"component", "parameters", "active", "forward FLOPs", "share"});
  for (size_t i = 0; i < budget::kComponents; ++i) {
    const budget::ComponentAccount &part = account.components[i];
    if (part.params == 0 && part.forward_flops == 0) {
      continue;
    }
    const double share =
        static_cast<double>(part.forward_flops) / static_cast<double>(account.forward_flops_with_head);
    table.addRow({std::string(budget::componentName(static_cast<budget::Component>(i))),
                  groupDigits(part.params), groupDigits(part.active_params), groupDigits(part.forward_flops),
                  fmt::format("{:.2f} %", 100 * share)});
  }
  return table.text();
}

std::string kvText(const budget::KvLaw &law) {
  Table table;
  table.addRow({"cache after n positions", "fixed", "per position"});
  const std::vector<budget::KvLaw::Piece> pieces = law.pieces();
  for (const budget::KvLaw::Piece &piece : pieces) {
    table.addRow({piece.from == 0 ? "elements" : fmt::format("from {}", groupDigits(piece.from)),
                  groupDigits(piece.fixed), groupDigits(piece.slope)});
  }
  return table.text();
}

std::string conventionsText(const AccountExtras &extras) {
  Table table(1);
  table.addRow({"convention", "training FLOPs per token", "against exact"});
  const auto exact = static_cast<double>(extras.conventions.front().training_flops);
  std::string definitions;
  for (const budget::Convention &row : extras.conventions) {
    const double difference = static_cast<double>(row.training_flops) / exact - 1;
    table.addRow(
        {std::string(row.name), groupDigits(row.training_flops), fmt::format("{:+.2f} %", 100 * difference)});
    definitions += fmt::format("{:<12}{}\n", row.name, row.definition);
  }
  return fmt::format("sequences of {} tokens\n{}\n{}", extras.convention_length, table.text(), definitions);
}

std::string expectationText(const AccountExtras &extras) {
  std::string trained = extras.gradient_visits
                            ? fmt::format("the last {} visits trained through", *extras.gradient_visits)
                            : "all visits trained through";
  return fmt::format("visits drawn from {}, {}\n  mean visits                     {:.4f}\n"
                     "  expected forward FLOPs/token    {:.6e}\n  expected training FLOPs/token   {:.6e}\n",
                     extras.visit_distribution, trained, extras.expectation->visits,
                     extras.expectation->forward_flops, extras.expectation->training_flops);
}

ordered_json componentsJson(const budget::Account &account) {
  ordered_json json = ordered_json::object();
  for (size_t i = 0; i < budget::kComponents; ++i) {
    const budget::ComponentAccount &part = account.components[i];
    json[std::string(budget::componentName(static_cast<budget::Component>(i)))] = {
        {"params", part.params},
        {"active_params", part.active_params},
        {"forward_flops_per_token", part.forward_flops}};
  }
  return json;
}

ordered_json kvJson(const budget::KvLaw &law) {
  ordered_json pieces = ordered_json::array();
  for (const budget::KvLaw::Piece &piece : law.pieces()) {
    pieces.push_back({{"from_position", piece.from},
                      {"fixed_elements", piece.fixed},
                      {"elements_per_position", piece.slope}});
  }
  return pieces;
}

void addDetails(const CountedModel &model, const AccountExtras &extras, ordered_json &json) {
  for (const NamedCount &row : detailNumbers(model.account)) {
    json[std::string(row.key)] = row.value;
  }
  json["components"] = componentsJson(model.account);
  json["kv"] = kvJson(model.account.kv);
  for (const auto &[dtype, bytes] : weightBytes(model.account)) {
    json["weight_bytes"][std::string(dtype)] = bytes;
  }
  json["context"] = extras.context.text();
  json["notes"] = model.notes;
}

} // namespace

std::string accountText(const CountedModel &model, const AccountExtras &extras) {
  int64_t layers = 0;
  for (const budget::LayerGroup &group : model.architecture.groups) {
    layers += group.layers;
  }
  std::string text = fmt::format("{}: {} layers, {} executed; FLOPs with {}\n\n", model.architecture.name,
                                 layers, model.account.executed_layers, extras.context.words());
  if (extras.details) {
    for (const std::string &line : describeLayers(model.architecture)) {
      text += line + "\n";
    }
    text += "\n";
  }
  text += numbersText(model, extras.details);
  if (extras.details) {
    text += "\n" + componentsText(model.account) + "\n" + kvText(model.account.kv);
  }
  if (!extras.conventions.empty()) {
    text += "\n" + conventionsText(extras);
  }
  if (extras.expectation) {
    text += "\n" + expectationText(extras);
  }
  for (const std::string &note : model.notes) {
    text += (&note == &model.notes.front() ? "\nnote: " : "note: ") + note + "\n";
  }
  return text;
}

std::string accountJson(const CountedModel &model, const AccountExtras &extras) {
  ordered_json json;
  for (const NamedCount &row : budgetNumbers(model.account)) {
    json[std::string(row.key)] = row.value;
  }
  if (model.bytes_per_weight > 0) {
    if (const auto bytes = kvBytesPerToken(model)) {
      json["kv_bytes_per_token"] = *bytes;
    }
    json["model_type"] = model.model_type;
    json["dtype"] = model.dtype;
  }
  if (extras.details) {
    addDetails(model, extras, json);
  }
  if (!extras.conventions.empty()) {
    json["conventions"]["sequence_length"] = extras.convention_length;
    for (const budget::Convention &row : extras.conventions) {
      json["conventions"]["training_flops_per_token"][std::string(row.name)] = row.training_flops;
    }
  }
  if (extras.expectation) {
    ordered_json &visits = json["visits"];
    visits["distribution"] = extras.visit_distribution;
    visits["gradient_visits"] =
        extras.gradient_visits ? ordered_json(*extras.gradient_visits) : ordered_json();
    visits["mean_visits"] = extras.expectation->visits;
    visits["expected_forward_flops_per_token"] = extras.expectation->forward_flops;
    visits["expected_training_flops_per_token"] = extras.expectation->training_flops;
  }
  return json.dump(2) + "\n";
}

} // namespace smelt::report
