// smeltc run: runs a compiled model, exactly as smelt-run does.
#include "compiler/Driver/Commands.h"

#include "runtime/tools/smelt-run/RunCommand.h"

#include <CLI/CLI.hpp>

namespace smelt::driver {

namespace {

class RunCommand : public Command {
public:
  void declare(CLI::App &app) override { runtime::addRunOptions(app, options); }

  // Reports its errors itself, since smelt-run does.
  smelt_status run() override { return static_cast<smelt_status>(runtime::runCommand(options, "smeltc")); }

private:
  runtime::RunOptions options;
};

} // namespace

std::unique_ptr<Command> makeRunCommand() { return std::make_unique<RunCommand>(); }

} // namespace smelt::driver
