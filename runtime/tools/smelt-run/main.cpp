// smelt-run: runs a compiled model. It needs no compiler.
#include "runtime/tools/smelt-run/RunCommand.h"
#include "smelt/status.h"

#include <CLI/CLI.hpp>

int main(int argc, char **argv) {
  CLI::App app("Runs a compiled model on given tokens", "smelt-run");
  smelt::runtime::RunOptions options;
  smelt::runtime::addRunOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &help) {
    return app.exit(help);
  } catch (const CLI::ParseError &error) {
    std::cerr << "smelt-run: error: " << error.what() << "\ntry 'smelt-run --help'\n";
    return SMELT_usage;
  }
  return smelt::runtime::runCommand(options, "smelt-run");
}
