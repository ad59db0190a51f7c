// smeltc diff: two models side by side.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/ContextOptions.h"
#include "compiler/Driver/LatencyOptions.h"
#include "compiler/Driver/ModelInput.h"

#include <CLI/CLI.hpp>

namespace smelt::driver {

namespace {

class DiffCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("A", first, "A TOML spec, or a Hugging Face config ending in .json")
        ->type_name("FILE")
        ->required();
    app.add_option("B", second, "The one to compare with it")->type_name("FILE")->required();
    context_options.declare(app);
    latency_options.declare(app, "latency-");
    app.add_flag("--json", json, "Print one JSON object");
  }

  smelt_status run() override {
    const budget::Context context = context_options.context();
    const report::CountedModel a = loadCounted(first, context);
    const report::CountedModel b = loadCounted(second, context);
    const std::vector<report::PredictedStep> steps_a = predictions(a, first);
    const std::vector<report::PredictedStep> steps_b = predictions(b, second);
    printResult(json ? report::diffJson(a, b, context, steps_a, steps_b)
                     : report::diffText(a, b, context, steps_a, steps_b));
    return SMELT_ok;
  }

private:
  // Nothing without a device. Each model in its own kind of numbers would compare two things at once: both
  // are in the first one's.
  std::vector<report::PredictedStep> predictions(const report::CountedModel &model, const std::string &path) {
    std::vector<report::PredictedStep> steps;
    if (latency_options.asked()) {
      if (!stored) {
        stored = formatOfBytes(model.bytes_per_weight);
      }
      for (const planner::LatencyRequest &request : latency_options.requests(*stored)) {
        steps.push_back(predicted(model.architecture, request, path));
      }
    }
    return steps;
  }

  std::string first;
  std::string second;
  ContextOptions context_options;
  LatencyOptions latency_options;
  std::optional<planner::NumberFormat> stored;
  bool json = false;
};

} // namespace

std::unique_ptr<Command> makeDiffCommand() { return std::make_unique<DiffCommand>(); }

} // namespace smelt::driver
