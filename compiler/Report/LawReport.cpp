#include "compiler/Report/LawReport.h"

#include "compiler/Law/LawFile.h"
#include "compiler/Report/Table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace smelt::report {

namespace {

using law::Gain;
using law::ScalingLaw;
using nlohmann::ordered_json;

constexpr const char *form = "loss(F, S, D) = E + A·(1−S)^b / F^a + K / D^c   in nats per token\n"
                             "F: training FLOPs per token; S: sparsity; D: training tokens; γ = a·c/(a+c)\n";

std::string percent(double fraction) { return fmt::format("{:.4g} %", 100 * fraction); }

// To a tenth of a per cent; nothing is "-0.0 %".
std::string tenths(double fraction) {
  double rounded = std::round(1000 * fraction) / 10;
  return fmt::format("{:.1f} %", rounded == 0 ? 0 : rounded);
}

std::string rangeText(const law::Range &range, double scale, const char *unit) {
  return range.low == range.high
             ? fmt::format("{:.3g}{}", range.low * scale, unit)
             : fmt::format("{:.3g} to {:.3g}{}", range.low * scale, range.high * scale, unit);
}

std::string validityText(const law::Validity &validity) {
  std::vector<std::string> parts;
  auto add = [&](const std::optional<law::Range> &range, double scale, const char *unit) {
    if (range) {
      parts.push_back(rangeText(*range, scale, unit));
    }
  };
  add(validity.training_flops, 1, " training FLOPs");
  add(validity.sparsity, 100, " % sparsity");
  add(validity.training_flops_per_token, 1, " FLOPs per token");
  add(validity.tokens, 1, " tokens");
  return parts.empty() ? "not said" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string describe(const ScalingLaw &law) {
  std::string text = law.name + (law.description.empty() ? "" : ": ") + law.description + "\n";
  if (!law.source.empty()) {
    text += fmt::format("  source  {}\n", law.source);
  }
  if (!law.data.empty()) {
    text += fmt::format("  loss    on {}\n", law.data);
  }
  text += fmt::format("  range   {}\n", validityText(law.validity));
  if (law.flops_per_size != 1) {
    text += fmt::format("  size    A and a are stated in parameters: read F as F/{:g}\n", law.flops_per_size);
  }
  return text;
}

// Each distinct value once, in order of appearance.
template <typename Items, typename Key> std::vector<double> distinct(const Items &items, Key key) {
  std::vector<double> values;
  for (const auto &item : items) {
    if (std::find(values.begin(), values.end(), key(item)) == values.end()) {
      values.push_back(key(item));
    }
  }
  return values;
}

} // namespace

std::string lawsTable(std::span<const ScalingLaw> laws) {
  Table table;
  table.addRow({"", "E", "A", "K", "a", "b", "c", "γ"});
  for (const ScalingLaw &law : laws) {
    std::vector<std::string> row = {law.name};
    for (const law::CoefficientName &name : law::coefficient_names) {
      row.push_back(fmt::format("{:.5g}", law.coefficients.*name.member));
    }
    row.push_back(fmt::format("{:.3f}", law::frontierExponent(law.coefficients)));
    table.addRow(std::move(row));
  }
  std::string text = fmt::format("{}\n{}\n", form, table.text());
  for (const ScalingLaw &law : laws) {
    text += describe(law);
  }
  return text;
}

std::string lawsJson(std::span<const ScalingLaw> laws) {
  ordered_json list = ordered_json::array();
  for (const ScalingLaw &law : laws) {
    list.push_back(ordered_json::parse(law::writeLaw(law)));
    list.back()["frontier_exponent"] = law::frontierExponent(law.coefficients);
  }
  return ordered_json{{"laws", list}}.dump(2) + "\n";
}

std::string optimaTable(std::span<const LawOptimum> optima) {
  Table table;
  table.addRow(
      {"", "training FLOPs", "sparsity", "FLOPs per token", "tokens", "tokens per parameter", "loss"});
  bool extrapolated = false;
  for (const auto &[law, best] : optima) {
    table.addRow({law->name, fmt::format("{:g}", best.training_flops), percent(best.run.sparsity),
                  fmt::format("{:.4g}", best.run.training_flops_per_token),
                  fmt::format("{:.4g}", best.run.tokens), fmt::format("{:.1f}", best.tokensPerParameter()),
                  fmt::format("{:.4f}", best.loss) + (best.extrapolated ? " *" : "  ")});
    extrapolated |= best.extrapolated;
  }
  return table.text() +
         "\ntokens per parameter: of the dense model with these FLOPs per token, F/6 parameters\n" +
         (extrapolated ? "* extrapolated: compute or sparsity outside the runs behind the law\n" : "");
}

std::string optimaJson(std::span<const LawOptimum> optima) {
  ordered_json list = ordered_json::array();
  for (const auto &[law, best] : optima) {
    list.push_back({{"law", law->name},
                    {"training_flops", best.training_flops},
                    {"sparsity_percent", law::inPercent(best.run.sparsity)},
                    {"training_flops_per_token", best.run.training_flops_per_token},
                    {"tokens", best.run.tokens},
                    {"tokens_per_parameter", best.tokensPerParameter()},
                    {"loss", best.loss},
                    {"extrapolated", best.extrapolated}});
  }
  return ordered_json{{"optima", list}}.dump(2) + "\n";
}

std::string gainsTable(const ScalingLaw &law, const ScalingLaw &reference, std::span<const Gain> gains) {
  std::vector<double> sparsities = distinct(gains, [](const Gain &gain) { return gain.sparsity; });
  Table table;
  std::vector<std::string> header = {"training FLOPs"};
  for (double sparsity : sparsities) {
    header.push_back("S = " + percent(sparsity) + "  ");
  }
  table.addRow(std::move(header));
  bool extrapolated = false;
  for (double compute : distinct(gains, [](const Gain &gain) { return gain.training_flops; })) {
    std::vector<std::string> row = {fmt::format("{:g}", compute)};
    for (const Gain &gain : gains) {
      if (gain.training_flops == compute) {
        row.push_back(tenths(gain.gain()) + (gain.extrapolated ? " *" : "  "));
        extrapolated |= gain.extrapolated;
      }
    }
    table.addRow(std::move(row));
  }
  std::string text = fmt::format("training compute that {} saves against {} at equal loss, both trained "
                                 "compute-optimally\n\n{}",
                                 law.name, reference.name, table.text());
  if (extrapolated) {
    text += "\n* extrapolated: compute or sparsity outside the runs behind the laws\n";
  }
  for (const Gain &gain : gains) {
    if (!gain.reference_training_flops) {
      text += fmt::format("{} never reaches {}'s loss at {:g} training FLOPs and {}: counted as 100 %\n",
                          reference.name, law.name, gain.training_flops, percent(gain.sparsity));
    }
  }
  return text;
}

std::string gainsJson(std::span<const Gain> gains) {
  ordered_json list = ordered_json::array();
  for (const Gain &gain : gains) {
    list.push_back({{"training_flops", gain.training_flops},
                    {"sparsity_percent", law::inPercent(gain.sparsity)},
                    {"gain_percent", 100 * gain.gain()},
                    {"extrapolated", gain.extrapolated}});
  }
  return ordered_json{{"gains", list}}.dump(2) + "\n";
}

} // namespace smelt::report
