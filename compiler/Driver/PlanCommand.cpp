// smeltc plan: a looped model with the budgets of a baseline.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/FileOutput.h"
#include "compiler/Driver/LatencyOptions.h"
#include "compiler/Driver/ModelInput.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/PlanArguments.h"
#include "compiler/Driver/Progress.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Export/Export.h"
#include "compiler/Planner/Explain.h"
#include "compiler/Planner/Planner.h"
#include "compiler/Report/PlanPage.h"
#include "compiler/Report/PlanReport.h"
#include "compiler/Spec/SpecWriter.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <optional>

namespace smelt::driver {

namespace {

using planner::Candidate;

// A model in the words of another tool, and where to write it.
struct ExportRequest {
  exporting::Format format;
  std::string path;
};

// "huggingface=config.json"
std::optional<ExportRequest> parseExport(std::string_view text) {
  size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals + 1 == text.size()) {
    return std::nullopt;
  }
  std::optional<exporting::Format> format = exporting::parseFormat(text.substr(0, equals));
  return format ? std::optional(ExportRequest{*format, std::string(text.substr(equals + 1))}) : std::nullopt;
}

CLI::Validator exportRequest() {
  auto check = [](std::string &text) -> std::string {
    return parseExport(text)
               ? ""
               : fmt::format("'{}' is not huggingface=FILE, megatron=FILE or torchtitan=FILE", text);
  };
  return CLI::Validator(check, "");
}

// Tells of a search that takes more than a second; most are over long before.
class SearchProgress {
public:
  ~SearchProgress() {
    if (progress) {
      progress->finish();
    }
  }

  std::function<void(double)> callback() {
    return [this](double part) {
      if (std::chrono::steady_clock::now() - start < std::chrono::seconds(1)) {
        return;
      }
      if (!progress) {
        progress.emplace(1);
        progress->begin("searching");
      }
      progress->update(fmt::format("{:.0f} %", 100 * part));
    };
  }

private:
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::optional<Progress> progress;
};

class PlanCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("BASELINE", baseline_path, "The unlooped model, a spec or a Hugging Face config.json")
        ->type_name("FILE")
        ->required();
    arguments.declare(app);
    app.add_option("-o,--output", output,
                   "Write the plan: a spec, or with a name in .json a Hugging Face config")
        ->type_name("FILE");
    app.add_option("--candidate", candidate_name,
                   "What to write and export: pick, runner-up-N or front-N (default pick)")
        ->type_name("NAME");
    app.add_option("--export", exports, "Write the plan for another tool, e.g. huggingface=config.json")
        ->check(exportRequest())
        ->allow_extra_args(false)
        ->type_name("FORMAT=FILE");
    app.add_option("--report", report_path, "Write a self-contained HTML page about the plan")
        ->type_name("FILE");
    app.add_option("--against", against_path, "Compare with another looped model of the baseline, likewise")
        ->type_name("FILE");
    app.add_option("--tokens", tokens, "Predict the loss of both models after so many training tokens")
        ->check(number())
        ->type_name("N");
    app.add_flag("--front", front, "List the Pareto front, too");
    app.add_flag("--explain", explain, "Tell why this is the pick and what each knob paid, too");
    CLI::Option *json_flag = app.add_flag("--json", json, "Print one JSON object");
    app.add_flag("--markdown", markdown, "Print a Markdown document")->excludes(json_flag);
  }

  smelt_status run() override {
    if (tokens && !(*tokens > 0)) {
      throw UserError(SMELT_usage,
                      fmt::format("--tokens must be more than 0, not {}\ntry 'smeltc plan --help'", *tokens));
    }
    input.emplace(loadBaseline(baseline_path));
    for (const std::string &path : outputPaths()) {
      checkWritable(path);
    }
    checkExpressible();
    std::optional<BaselineInput> against;
    if (!against_path.empty()) {
      against = loadBaseline(against_path);
    }
    const planner::Plan plan = findPlan();
    write(plan);
    std::string text = render(plan);
    if (against && !json) {
      text += "\n" + planner::comparedWith(baseline(), plan, against->baseline) + "\n";
    }
    printResult(text);
    return SMELT_ok;
  }

private:
  const planner::Baseline &baseline() const { return input->baseline; }

  // Whether a file of these would have to leave something out that its format cannot say: told before the
  // search.
  void checkExpressible() const {
    if (baseline().spec) {
      return;
    }
    if (!output.empty() && !isConfig(output)) {
      refuse("a spec, " + output);
    }
    for (const std::string &text : exports) {
      const ExportRequest request = *parseExport(text);
      if (request.format != exporting::Format::huggingface) {
        refuse(fmt::format("{}, {}", exporting::formatName(request.format), request.path));
      }
    }
  }

  [[noreturn]] void refuse(const std::string &what) const {
    std::string message =
        fmt::format("a plan of {} cannot be written as {}: a spec has no words for\n", baseline_path, what);
    for (const std::string &reason : baseline().beyond_spec) {
      message += "  " + reason + "\n";
    }
    throw UserError(SMELT_unsupported, message + "a Hugging Face config has: -o FILE.json");
  }

  planner::Plan findPlan() {
    planner::PlanOptions options = arguments.options(storedFormat());
    planner::PlanResult result;
    {
      SearchProgress progress;
      options.progress = progress.callback();
      result = planner::plan(baseline(), options);
    }
    if (!result) {
      throw UserError(result.status, result.status == SMELT_usage
                                         ? result.error + "\ntry 'smeltc plan --help'"
                                         : fmt::format("{}: {}", baseline_path, result.error));
    }
    return std::move(*result.plan);
  }

  // How the baseline's weights are stored.
  planner::NumberFormat storedFormat() const {
    return formatOfBytes(isConfig(baseline_path) ? loadConfig(baseline_path).bytes_per_weight : 0);
  }

  std::vector<std::string> outputPaths() const {
    std::vector<std::string> paths;
    for (const std::string &text : exports) {
      paths.push_back(parseExport(text)->path);
    }
    for (const std::string &path : {output, report_path}) {
      if (!path.empty()) {
        paths.push_back(path);
      }
    }
    return paths;
  }

  // All or nothing: a refused export leaves no file behind.
  void write(const planner::Plan &plan) const {
    const Candidate &candidate = chosen(plan);
    std::vector<std::pair<std::string, std::string>> files;
    for (const std::string &text : exports) {
      const ExportRequest request = *parseExport(text);
      files.emplace_back(request.path, exported(candidate, request.format));
    }
    if (!output.empty()) {
      files.emplace_back(output, isConfig(output) ? exported(candidate, exporting::Format::huggingface)
                                                  : spec::writeSpec(*candidate.spec, comment(candidate)));
    }
    if (!report_path.empty()) {
      files.emplace_back(report_path, report::planPage(baseline(), plan, tokens));
    }
    for (const auto &[path, text] : files) {
      writeFile(path, text);
    }
  }

  std::string exported(const Candidate &candidate, exporting::Format format) const {
    const exporting::ExportResult result = candidate.spec
                                               ? exporting::exportSpec(*candidate.spec, format)
                                               : exporting::exportLooped(*input->config, candidate);
    if (!result) {
      throw UserError(result.status, result.error);
    }
    return *result.text;
  }

  const Candidate &chosen(const planner::Plan &plan) const {
    if (candidate_name == "pick") {
      return plan.pick;
    }
    const std::pair<std::string_view, const std::vector<Candidate> *> lists[] = {
        {"runner-up-", &plan.runners_up}, {"front-", &plan.front}};
    for (const auto &[prefix, candidates] : lists) {
      if (candidate_name.starts_with(prefix)) {
        size_t number = 0;
        const char *begin = candidate_name.data() + prefix.size();
        const char *end = candidate_name.data() + candidate_name.size();
        if (std::from_chars(begin, end, number).ptr == end && number >= 1 && number <= candidates->size()) {
          return (*candidates)[number - 1];
        }
      }
    }
    throw UserError(SMELT_usage,
                    fmt::format("--candidate: there is no '{}': this plan has pick, runner-up-1 to {} and "
                                "front-1 to {}\ntry 'smeltc plan --help'",
                                candidate_name, plan.runners_up.size(), plan.front.size()));
  }

  std::string render(const planner::Plan &plan) const {
    if (json) {
      return report::planJson(baseline(), plan, tokens);
    }
    if (markdown) {
      return report::planMarkdown(baseline(), plan, tokens);
    }
    std::string text = report::planTable(baseline(), plan, tokens);
    text += explain ? "\n" + report::planExplanation(baseline(), plan) : "";
    text += front ? "\n" + report::frontTable(plan) : "";
    return text;
  }

  std::string comment(const Candidate &candidate) const {
    return fmt::format(
        "Matches the budgets of {}: {} layers before the loop, {} visited {} times, {} after it",
        baseline().name(), candidate.placement.prelude, candidate.placement.looped, candidate.visits,
        candidate.placement.coda);
  }

  std::string baseline_path, output, report_path, against_path;
  std::string candidate_name = "pick";
  std::vector<std::string> exports;
  std::optional<double> tokens;
  PlanArguments arguments;
  std::optional<BaselineInput> input;
  bool front = false;
  bool explain = false;
  bool json = false;
  bool markdown = false;
};

} // namespace

std::unique_ptr<Command> makePlanCommand() { return std::make_unique<PlanCommand>(); }

} // namespace smelt::driver
