// smeltc budget: parameters, FLOPs and KV cache of a spec, exactly.
#include "compiler/Driver/Commands.h"

#include "compiler/Budget/Budget.h"
#include "compiler/Driver/Console.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/SpecInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Report/BudgetReport.h"

namespace smelt::driver {

namespace {

class BudgetCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("SPEC", spec_path, "The model, a TOML file")->type_name("FILE")->required();
    app.add_option("--attended", attended,
                   "Mean number of positions a token attends to (default " + budget::Attended().text() +
                       ", that of the published grid; over S causal positions it is (S+1)/2)")
        ->check(attendedPositions())
        ->type_name("N");
    app.add_flag("--json", json, "Print one JSON object");
  }

  smelt_status run() override {
    spec::ModelSpec spec = loadSpec(spec_path);
    budget::Attended positions = attended.empty() ? budget::Attended() : *budget::Attended::parse(attended);
    budget::BudgetResult result = budget::computeBudget(spec, positions);
    if (!result) {
      throw UserError(SMELT_spec, spec_path + ": " + result.error);
    }
    printResult(json ? report::budgetJson(*result.budget)
                     : report::budgetTable(spec, *result.budget, positions));
    return SMELT_ok;
  }

private:
  std::string spec_path;
  std::string attended;
  bool json = false;
};

} // namespace

std::unique_ptr<Command> makeBudgetCommand() { return std::make_unique<BudgetCommand>(); }

} // namespace smelt::driver
