#include "compiler/Driver/LawFit.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/FileOutput.h"
#include "compiler/Driver/LawInput.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Progress.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Law/LawFile.h"
#include "compiler/Report/LawFitReport.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace smelt::driver {

namespace {

// Fewer have no 2.5 % on either side.
constexpr uint64_t fewest_resamples = 40;

struct FixableCoefficient {
  std::string_view letter;
  std::optional<double> law::FixedCoefficients::*member;
  bool may_be_zero;
};

// A and K have no meaning apart from a and c.
constexpr FixableCoefficient fixable[] = {
    {"E", &law::FixedCoefficients::floor, false},
    {"a", &law::FixedCoefficients::model_exponent, false},
    {"b", &law::FixedCoefficients::sparsity_exponent, true},
    {"c", &law::FixedCoefficients::data_exponent, false},
};

// "b=0" to the coefficient and its value.
std::string fixProblem(const std::string &text, const FixableCoefficient *&coefficient, double &value) {
  size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return fmt::format("'{}' is not NAME=VALUE, such as b=0", text);
  }
  std::string_view name = std::string_view(text).substr(0, equals);
  std::string number_text = text.substr(equals + 1);
  coefficient = nullptr;
  for (const FixableCoefficient &candidate : fixable) {
    if (candidate.letter == name) {
      coefficient = &candidate;
    }
  }
  if (!coefficient) {
    return fmt::format("'{}' is not one of E, a, b, c", name);
  }
  if (std::string problem = number()(number_text); !problem.empty()) {
    return problem;
  }
  value = std::stod(number_text);
  if (!coefficient->may_be_zero && !(value > 0)) {
    return fmt::format("{} must be more than 0, not {}", name, number_text);
  }
  return "";
}

CLI::Validator fixedCoefficient() {
  auto check = [](std::string &text) -> std::string {
    const FixableCoefficient *coefficient = nullptr;
    double value = 0;
    return fixProblem(text, coefficient, value);
  };
  return CLI::Validator(check, "");
}

// 0 for no intervals, or enough of them.
CLI::Validator resamples() {
  auto check = [](std::string &text) -> std::string {
    std::string problem = wholeNumber(0, 1'000'000)(text);
    if (problem.empty() && text != "0" && std::stoull(text) < fewest_resamples) {
      return fmt::format("{} resamples give no intervals; take 0 for none, or at least {}", text,
                         fewest_resamples);
    }
    return problem;
  };
  return CLI::Validator(check, "");
}

} // namespace

void LawFit::declare(CLI::App &app) {
  app.add_option("RUNS", runs_path,
                 "A CSV file with the columns training_flops_per_token, sparsity_percent, tokens, loss and, "
                 "optionally, cell: runs of one cell are resampled together")
      ->type_name("FILE")
      ->required();
  app.add_option("-o,--output", output, "Write the law as JSON, to be given to --law")->type_name("FILE");
  app.add_option("--plot", plot, "Write the residuals as a picture, an SVG file")->type_name("FILE");
  app.add_option("--name", name, "Name of the law (default: that of RUNS)")->type_name("NAME");
  app.add_option("--fix", fixed, "Give E, a, b or c a value instead of fitting it, e.g. b=0 for dense runs")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(fixedCoefficient())
      ->type_name("NAME=VALUE,...");
  app.add_option("--bootstrap", options.bootstrap,
                 "Resamples for the 95 % intervals (default 2000; 0: no intervals)")
      ->check(resamples())
      ->type_name("N");
  app.add_option("--delta", options.delta,
                 "Residuals of log loss beyond it count linearly, not squared (default 0.001)")
      ->check(positiveNumber())
      ->type_name("D");
  app.add_option("--seed", options.seed, "Of the resamples (default 1)")
      ->check(wholeNumber(0, UINT64_MAX))
      ->type_name("N");
  app.add_option("--threads", options.threads, "Threads (default: one per processor); the result is the same")
      ->check(wholeNumber(1, 1024))
      ->type_name("N");
  app.add_flag("--json", json, "Print one JSON object");
}

smelt_status LawFit::run() {
  for (const std::string &path : {output, plot}) {
    if (!path.empty()) {
      checkWritable(path);
    }
  }
  setFixed();
  options.name = name.empty() ? std::filesystem::path(runs_path).stem().string() : name;
  std::vector<law::Run> runs = loadRuns();
  law::Fit fit = fitRuns(runs);
  if (!output.empty()) {
    writeFile(output, law::writeLaw(fit.law));
  }
  if (!plot.empty()) {
    writeFile(plot, report::fitPlot(fit, runs));
  }
  printResult(json ? report::fitJson(fit, runs, options) : report::fitTable(fit, runs, options));
  for (const std::string &note : fit.notes) {
    printNote(note);
  }
  return SMELT_ok;
}

void LawFit::setFixed() {
  for (const std::string &text : fixed) {
    const FixableCoefficient *coefficient = nullptr;
    double value = 0;
    fixProblem(text, coefficient, value); // checked when it was parsed
    if (options.fixed.*coefficient->member) {
      throw UserError(SMELT_usage, fmt::format("--fix: {} is given twice\ntry 'smeltc law fit --help'",
                                               coefficient->letter));
    }
    options.fixed.*coefficient->member = value;
  }
}

std::vector<law::Run> LawFit::loadRuns() const {
  law::RunsResult result = law::readRuns(readTextFile(runs_path), runs_path);
  if (!result) {
    size_t count = result.diagnostics.sorted().size();
    throw UserError(SMELT_io, count == 1 ? result.diagnostics.text()
                                         : fmt::format("'{}' has {} problems:\n{}", runs_path, count,
                                                       result.diagnostics.text()));
  }
  if (!result.ignored_columns.empty()) {
    printNote(fmt::format("{}: columns not used: {}", runs_path, fmt::join(result.ignored_columns, ", ")));
  }
  return std::move(result.runs);
}

law::Fit LawFit::fitRuns(const std::vector<law::Run> &runs) const {
  Progress progress(1);
  progress.begin(fmt::format("fitting {} runs, {} resamples", runs.size(), options.bootstrap));
  law::FitResult result = law::fitLaw(runs, options);
  progress.finish();
  if (!result) {
    throw UserError(SMELT_infeasible,
                    fmt::format("{} cannot be fitted:\n{}", runs_path, fmt::join(result.problems, "\n")));
  }
  return *std::move(result.fit);
}

} // namespace smelt::driver
