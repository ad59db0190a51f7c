// smeltc budget: parameters, FLOPs and KV cache of a spec or a Hugging Face config, exactly.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/ContextOptions.h"
#include "compiler/Driver/ModelInput.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Report/AccountReport.h"

namespace smelt::driver {

namespace {

CLI::Validator visitDistribution() {
  return CLI::Validator(
      [](std::string &text) -> std::string {
        return budget::VisitDistribution::parse(text)
                   ? ""
                   : "'" + text + "' is not fixed:R or poisson-lognormal:MEAN[:SIGMA[:HIGHEST]]";
      },
      "");
}

class BudgetCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("MODEL", path, "The model: a TOML spec, or a Hugging Face config ending in .json")
        ->type_name("FILE")
        ->required();
    context_options.declare(app);
    app.add_flag("--details", details,
                 "Also components, cache law, bytes and the meanings of active (always for a config)");
    app.add_flag(
        "--conventions", conventions,
        "Also training FLOPs as other tools count them, for sequences of --context causal:S (default 4096)");
    CLI::Option *visits = app.add_option("--visits", distribution,
                                         "Also expected FLOPs when the loop's visits are drawn: fixed:R or "
                                         "poisson-lognormal:MEAN[:SIGMA[:HIGHEST]]")
                              ->check(visitDistribution())
                              ->type_name("DIST");
    app.add_option("--gradient-visits", gradient_visits,
                   "Visits that training goes back through, the last ones (all)")
        ->check(wholeNumber(1, 1 << 14))
        ->type_name("K")
        ->needs(visits);
    app.add_flag("--json", json, "Print one JSON object");
  }

  smelt_status run() override {
    const report::CountedModel model = loadCounted(path, context_options.context());
    report::AccountExtras extras{.context = context_options.context(), .details = details || isConfig(path)};
    addConventions(model, extras);
    addExpectation(model, extras);
    printResult(json ? report::accountJson(model, extras) : report::accountText(model, extras));
    return SMELT_ok;
  }

private:
  void addConventions(const report::CountedModel &model, report::AccountExtras &extras) const {
    if (!conventions) {
      return;
    }
    extras.convention_length = context_options.sequenceLength();
    if (extras.convention_length > budget::kMaxConventionLength) {
      throw UserError(SMELT_usage, "--conventions needs sequences of at most " +
                                       std::to_string(budget::kMaxConventionLength) +
                                       " tokens, --context has " + std::to_string(extras.convention_length));
    }
    auto rows = budget::conventions(model.architecture, extras.convention_length);
    if (!rows) {
      throw UserError(SMELT_spec, path + ": the FLOPs of a convention do not fit in 64 bits");
    }
    extras.conventions = std::move(*rows);
  }

  void addExpectation(const report::CountedModel &model, report::AccountExtras &extras) const {
    if (distribution.empty()) {
      return;
    }
    if (model.account.loop_flops_per_visit == 0) {
      throw UserError(SMELT_usage, path + ": --visits needs a model with a loop, and this one has none");
    }
    const auto draws = *budget::VisitDistribution::parse(distribution);
    if (gradient_visits > 0) {
      extras.gradient_visits = gradient_visits;
    }
    extras.visit_distribution = draws.text();
    extras.expectation =
        budget::expectedFlops(model.architecture, extras.context, draws, extras.gradient_visits);
  }

  std::string path;
  ContextOptions context_options;
  bool details = false;
  bool conventions = false;
  std::string distribution;
  int64_t gradient_visits = 0;
  bool json = false;
};

} // namespace

std::unique_ptr<Command> makeBudgetCommand() { return std::make_unique<BudgetCommand>(); }

} // namespace smelt::driver
