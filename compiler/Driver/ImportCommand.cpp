// smeltc import: a Hugging Face config as a spec.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/FileOutput.h"
#include "compiler/Driver/ModelInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Spec/SpecWriter.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace smelt::driver {

namespace {

class ImportCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("CONFIG", path, "A Hugging Face config.json")->type_name("FILE")->required();
    app.add_option("-o,--output", output, "The spec to write; default: standard output")->type_name("FILE");
    app.add_option("--name", name, "The model's name (default: the file's, or its folder's for config.json)")
        ->type_name("NAME");
  }

  smelt_status run() override {
    if (path.ends_with(".toml")) {
      throw UserError(
          SMELT_usage,
          fmt::format("'{}' is a spec already; smeltc import reads a Hugging Face config.json", path));
    }
    hf::Model model = loadConfig(path);
    if (!name.empty()) {
      model.architecture.name = name;
    }
    const spec::ModelSpec spec = convertConfig(model, path);
    const std::string text =
        spec::writeSpec(spec, fmt::format("Imported from a {} config.", model.model_type));
    if (output.empty()) {
      printResult(text);
    } else {
      writeFile(output, text);
    }
    return SMELT_ok;
  }

private:
  std::string path;
  std::string output;
  std::string name;
};

} // namespace

std::unique_ptr<Command> makeImportCommand() { return std::make_unique<ImportCommand>(); }

} // namespace smelt::driver
