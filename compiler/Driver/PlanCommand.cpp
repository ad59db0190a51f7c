// smeltc plan: a looped model with the budgets of a baseline.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/FileOutput.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/SpecInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Planner/Planner.h"
#include "compiler/Report/PlanReport.h"
#include "compiler/Spec/SpecWriter.h"

namespace smelt::driver {

namespace {

class PlanCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("BASELINE", baseline_path, "The unlooped model, a TOML file")
        ->type_name("FILE")
        ->required();
    app.add_option("--span", options.span, "Part of the layers that loops, in the middle (default 0.5)")
        ->check(number())
        ->type_name("PART");
    app.add_option("--visits", options.visits, "How often the loop is run (default 2)")
        ->check(wholeNumber(1, 1'000'000))
        ->type_name("N");
    app.add_option("-o,--output", output, "Write the plan as a spec, a TOML file")->type_name("FILE");
    app.add_option("--attended", attended,
                   "Mean number of positions a token attends to (default " + budget::Attended().text() + ")")
        ->check(attendedPositions())
        ->type_name("N");
    app.add_option("--tolerance", options.tolerance, "Largest relative difference of a budget (default 0.05)")
        ->check(number())
        ->type_name("PART");
    app.add_option("--kv-heads", options.kv_heads, "Numbers of KV heads to try (default: the baseline's)")
        ->delimiter(',')
        ->check(wholeNumber(1, 1'000'000))
        ->type_name("N,...");
    app.add_option("--name", options.name, "Name of the plan (default: the baseline's with -looped)")
        ->type_name("NAME");
    app.add_flag("--json", json, "Print one JSON object");
  }

  smelt_status run() override {
    spec::ModelSpec baseline = loadSpec(baseline_path);
    if (!output.empty()) {
      checkWritable(output);
    }
    if (!attended.empty()) {
      options.attended = *budget::Attended::parse(attended);
    }
    planner::PlanResult result = planner::plan(baseline, options);
    if (!result) {
      throw UserError(result.status, explain(result));
    }
    if (!output.empty()) {
      writeFile(output, spec::writeSpec(result.plan->pick.spec, comment(baseline)));
    }
    printResult(json ? report::planJson(baseline, *result.plan) : report::planTable(baseline, *result.plan));
    return SMELT_ok;
  }

private:
  std::string explain(const planner::PlanResult &result) const {
    return result.status == SMELT_usage ? result.error + "\ntry 'smeltc plan --help'"
                                        : fmt::format("{}: {}", baseline_path, result.error);
  }

  std::string comment(const spec::ModelSpec &baseline) const {
    return fmt::format("Matches the budgets of {}: smeltc plan --span {} --visits {}", baseline.name,
                       options.span, options.visits);
  }

  std::string baseline_path;
  std::string output;
  std::string attended;
  planner::PlanOptions options;
  bool json = false;
};

} // namespace

std::unique_ptr<Command> makePlanCommand() { return std::make_unique<PlanCommand>(); }

} // namespace smelt::driver
