// smeltc diff: two models side by side.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/ContextOptions.h"
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
    app.add_flag("--json", json, "Print one JSON object");
  }

  smelt_status run() override {
    const budget::Context context = context_options.context();
    const report::CountedModel a = loadCounted(first, context);
    const report::CountedModel b = loadCounted(second, context);
    printResult(json ? report::diffJson(a, b, context) : report::diffText(a, b, context));
    return SMELT_ok;
  }

private:
  std::string first;
  std::string second;
  ContextOptions context_options;
  bool json = false;
};

} // namespace

std::unique_ptr<Command> makeDiffCommand() { return std::make_unique<DiffCommand>(); }

} // namespace smelt::driver
