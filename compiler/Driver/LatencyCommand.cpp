// smeltc latency: what a forward pass of a model takes on a named device, predicted.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/LatencyOptions.h"
#include "compiler/Driver/ModelInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Report/LatencyReport.h"

#include <CLI/CLI.hpp>

namespace smelt::driver {

namespace {

class LatencyCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("MODEL", path, "A TOML spec, or a Hugging Face config ending in .json")
        ->type_name("FILE")
        ->required();
    options.declare(app, "");
    options.deviceOption()->required();
    app.add_flag("--json", json, "Print one JSON object");
  }

  smelt_status run() override {
    const report::CountedModel model = loadCounted(path, budget::Context());
    std::vector<report::PredictedStep> steps;
    for (const planner::LatencyRequest &request : options.requests(formatOfBytes(model.bytes_per_weight))) {
      steps.push_back(predicted(model.architecture, request, path));
    }
    const std::string &name = model.architecture.name;
    printResult(json ? report::latencyJson(name, steps) : report::latencyText(name, steps));
    return SMELT_ok;
  }

private:
  std::string path;
  LatencyOptions options;
  bool json = false;
};

} // namespace

std::unique_ptr<Command> makeLatencyCommand() { return std::make_unique<LatencyCommand>(); }

} // namespace smelt::driver
