#include "compiler/Report/LawFitReport.h"

#include "compiler/Law/LawFile.h"
#include "compiler/Report/ResidualPlot.h"
#include "compiler/Report/Table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>

namespace smelt::report {

namespace {

using law::Fit;
using law::Run;
using nlohmann::ordered_json;

constexpr size_t listed_residuals = 5;

double residualOf(const Fit &fit, std::span<const Run> runs, size_t index) {
  return runs[index].loss - fit.predicted[index];
}

std::string intervalText(const law::Interval &interval) {
  return fmt::format("{:.4g} to {:.4g}", interval.low, interval.high);
}

std::string coefficientTable(const Fit &fit) {
  Table table;
  std::vector<std::string> header = {"", "value"};
  if (!fit.draws.empty()) {
    header.push_back(fmt::format("{:g} % interval", 100 * fit.level));
  }
  table.addRow(std::move(header));
  auto add = [&](const char *name, double value, auto interval) {
    std::vector<std::string> row = {name, fmt::format("{:.5g}", value)};
    if (!fit.draws.empty()) {
      row.push_back(intervalText(interval()));
    }
    table.addRow(std::move(row));
  };
  for (const law::CoefficientName &name : law::coefficient_names) {
    add(name.letter, fit.law.coefficients.*name.member, [&] { return fit.interval(name.member); });
  }
  add("γ", law::frontierExponent(fit.law.coefficients), [&] { return fit.frontierInterval(); });
  return table.text();
}

std::string largestResiduals(const Fit &fit, std::span<const Run> runs) {
  std::vector<size_t> order(runs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    return std::pair(-std::abs(residualOf(fit, runs, x)), x) <
           std::pair(-std::abs(residualOf(fit, runs, y)), y);
  });
  order.resize(std::min(order.size(), listed_residuals));
  Table table;
  table.addRow(
      {"largest residuals", "FLOPs per token", "sparsity", "tokens", "loss", "predicted", "residual"});
  for (size_t index : order) {
    const Run &run = runs[index];
    table.addRow({fmt::format("line {}", run.line), fmt::format("{:.4g}", run.training_flops_per_token),
                  fmt::format("{:.4g} %", 100 * run.sparsity), fmt::format("{:.4g}", run.tokens),
                  fmt::format("{:.4f}", run.loss), fmt::format("{:.4f}", fit.predicted[index]),
                  fmt::format("{:+.4f}", residualOf(fit, runs, index))});
  }
  return table.text();
}

std::vector<Residual> plotted(const Fit &fit, std::span<const Run> runs) {
  std::vector<Residual> residuals;
  for (size_t i = 0; i < runs.size(); ++i) {
    residuals.push_back({runs[i].trainingFlops(), runs[i].sparsity, residualOf(fit, runs, i)});
  }
  return residuals;
}

ordered_json intervalsJson(const Fit &fit) {
  if (fit.draws.empty()) {
    return nullptr;
  }
  ordered_json intervals;
  for (const law::CoefficientName &name : law::coefficient_names) {
    law::Interval interval = fit.interval(name.member);
    intervals[name.letter] = {interval.low, interval.high};
  }
  law::Interval gamma = fit.frontierInterval();
  intervals["frontier_exponent"] = {gamma.low, gamma.high};
  return intervals;
}

} // namespace

std::string fitTable(const Fit &fit, std::span<const Run> runs, const law::FitOptions &options) {
  std::string text = fmt::format("{}: {} runs in {} cells; Huber loss of log loss, δ = {:g}\n\n{}\n",
                                 fit.law.name, runs.size(), fit.cells, options.delta, coefficientTable(fit));
  text += fmt::format("root mean square residual  {:.5f} nats\n", fit.rmse);
  text += fmt::format("starts at the best minimum {} of {}\n", fit.starts_at_best, fit.starts);
  if (!fit.draws.empty()) {
    text += fmt::format(
        "resamples of the cells     {}, seed {}{}\n", fit.draws.size(), options.seed,
        fit.redrawn > 0 ? fmt::format("; {} that determine no law were drawn again", fit.redrawn) : "");
  }
  return text + "\n" + largestResiduals(fit, runs) + "\n" + residualText(plotted(fit, runs));
}

std::string fitJson(const Fit &fit, std::span<const Run> runs, const law::FitOptions &options) {
  ordered_json json;
  json["law"] = ordered_json::parse(law::writeLaw(fit.law));
  json["frontier_exponent"] = law::frontierExponent(fit.law.coefficients);
  json["intervals"] = intervalsJson(fit);
  json["level"] = options.level;
  json["bootstrap"] = fit.draws.size();
  json["redrawn"] = fit.redrawn;
  json["seed"] = options.seed;
  json["delta"] = options.delta;
  json["runs"] = runs.size();
  json["cells"] = fit.cells;
  json["rmse"] = fit.rmse;
  json["starts"] = fit.starts;
  json["starts_at_best"] = fit.starts_at_best;
  json["notes"] = fit.notes;
  json["residuals"] = ordered_json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    json["residuals"].push_back({{"line", runs[i].line},
                                 {"cell", runs[i].cell},
                                 {"loss", runs[i].loss},
                                 {"predicted", fit.predicted[i]},
                                 {"residual", residualOf(fit, runs, i)}});
  }
  return json.dump(2) + "\n";
}

std::string fitPlot(const Fit &fit, std::span<const Run> runs) {
  return residualSvg(plotted(fit, runs), fmt::format("{}: residuals of {} runs", fit.law.name, runs.size()));
}

} // namespace smelt::report
