// smeltc law: scaling laws, what they say is optimal and what one saves against another.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/LawFit.h"
#include "compiler/Driver/LawInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Law/PublishedLaws.h"
#include "compiler/Report/LawReport.h"

#include <fmt/format.h>

namespace smelt::driver {

namespace {

// The compute and the sparsities that the published tables list.
constexpr double published_compute[] = {1e20, 1e21, 1e22};
constexpr double published_sparsities[] = {85, 95, 97};

std::vector<double> valuesOr(const std::vector<double> &values, std::span<const double> otherwise) {
  return values.empty() ? std::vector<double>(otherwise.begin(), otherwise.end()) : values;
}

// One option that takes numbers separated by commas.
CLI::Option *addList(CLI::App &app, const std::string &name, std::vector<double> &values,
                     const std::string &text, const char *type) {
  return app.add_option(name, values, text)->delimiter(',')->allow_extra_args(false)->type_name(type);
}

class LawCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.require_subcommand(1);
    declareShow(*app.add_subcommand("show", "Print coefficients, sources and ranges"));
    declareOptimal(*app.add_subcommand("optimal", "Find the best model and tokens for a compute budget"));
    declareGain(*app.add_subcommand("gain", "Compare the compute of two laws at equal loss"));
    fit.declare(*app.add_subcommand("fit", "Fit a law to training runs"));
    for (CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; })) {
      sub->footer("");
    }
    parser = &app;
  }

  smelt_status run() override {
    if (parser->got_subcommand("show")) {
      return runShow();
    }
    if (parser->got_subcommand("optimal")) {
      return runOptimal();
    }
    if (parser->got_subcommand("gain")) {
      return runGain();
    }
    return fit.run();
  }

private:
  void declareShow(CLI::App &app) {
    app.add_option("LAW", laws, "Names or files of laws (default: all that come with smeltc)")
        ->type_name("NAME|FILE");
    app.add_flag("--json", json, "Print one JSON object");
  }

  void declareOptimal(CLI::App &app) {
    addList(app, "--compute", compute, "Training FLOPs to spend", "FLOPS,...")
        ->check(positiveNumber())
        ->required();
    app.add_option("--law", laws, "Laws to ask, names or files (default: baseline,smelt)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("NAME|FILE,...");
    addList(app, "--sparsity", sparsities, "Sparsities in per cent (default: 85,95,97; 0 for dense laws)",
            "PERCENT,...")
        ->check(sparsityPercent());
    app.add_flag("--json", json, "Print one JSON object");
  }

  void declareGain(CLI::App &app) {
    addList(app, "--compute", compute, "Training FLOPs that the law spends (default: 1e20,1e21,1e22)",
            "FLOPS,...")
        ->check(positiveNumber());
    addList(app, "--sparsity", sparsities, "Sparsities in per cent (default: 85,95,97)", "PERCENT,...")
        ->check(sparsityPercent());
    app.add_option("--law", law, "The law that saves, a name or a file (default: smelt)")
        ->type_name("NAME|FILE");
    app.add_option("--reference", reference, "The law it is compared with (default: baseline)")
        ->type_name("NAME|FILE");
    app.add_flag("--json", json, "Print one JSON object");
  }

  smelt_status runShow() {
    std::vector<law::ScalingLaw> shown(law::publishedLaws().begin(), law::publishedLaws().end());
    if (!laws.empty()) {
      shown = loadAll(laws);
    }
    printResult(json ? report::lawsJson(shown) : report::lawsTable(shown));
    return SMELT_ok;
  }

  smelt_status runOptimal() {
    std::vector<law::ScalingLaw> asked =
        loadAll(laws.empty() ? std::vector<std::string>{"baseline", "smelt"} : laws);
    std::vector<report::LawOptimum> optima;
    for (double flops : compute) {
      for (const law::ScalingLaw &one : asked) {
        for (double percent : sparsitiesFor(one)) {
          optima.push_back({&one, law::optimum(one, flops, percent / 100)});
        }
      }
    }
    printResult(json ? report::optimaJson(optima) : report::optimaTable(optima));
    return SMELT_ok;
  }

  smelt_status runGain() {
    law::ScalingLaw ours = loadLaw(law);
    law::ScalingLaw other = loadLaw(reference);
    if (!ours.data.empty() && !other.data.empty() && ours.data != other.data) {
      printNote(
          fmt::format("the losses of '{}' (on {}) and '{}' (on {}) are of different data, so that equal "
                      "loss does not mean equal quality",
                      ours.name, ours.data, other.name, other.data));
    }
    std::vector<law::Gain> gains;
    for (double flops : valuesOr(compute, published_compute)) {
      for (double percent : valuesOr(sparsities, published_sparsities)) {
        gains.push_back(law::computeGain(ours, other, flops, percent / 100));
      }
    }
    printResult(json ? report::gainsJson(gains) : report::gainsTable(ours, other, gains));
    return SMELT_ok;
  }

  static std::vector<law::ScalingLaw> loadAll(const std::vector<std::string> &names) {
    std::vector<law::ScalingLaw> loaded;
    for (const std::string &name : names) {
      loaded.push_back(loadLaw(name));
    }
    return loaded;
  }

  // Dense laws are the same at every sparsity, and hold for none but 0.
  std::vector<double> sparsitiesFor(const law::ScalingLaw &one) const {
    bool dense = one.coefficients.sparsity_exponent == 0;
    return dense && sparsities.empty() ? std::vector<double>{0} : valuesOr(sparsities, published_sparsities);
  }

  const CLI::App *parser = nullptr;
  LawFit fit;
  std::vector<std::string> laws;
  std::vector<double> compute;
  std::vector<double> sparsities;
  std::string law = "smelt";
  std::string reference = "baseline";
  bool json = false;
};

} // namespace

std::unique_ptr<Command> makeLawCommand() { return std::make_unique<LawCommand>(); }

} // namespace smelt::driver
