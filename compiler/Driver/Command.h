// A subcommand of smeltc. Each lives in a file of its own, FooCommand.cpp, and is listed in CommandTable.cpp.
#pragma once

#include "smelt/status.h"

#include <memory>
#include <span>

namespace CLI {
class App;
} // namespace CLI

namespace smelt::driver {

class Command {
public:
  virtual ~Command() = default;
  // Adds the command's options to `app`, bound to members of this object.
  virtual void declare(CLI::App &app) = 0;
  // Runs with the parsed options. The results go to stdout and nothing else does; what the user got wrong is
  // thrown as a UserError.
  virtual smelt_status run() = 0;
};

struct CommandInfo {
  const char *name;
  const char *summary; // one line of smeltc --help
  std::unique_ptr<Command> (*create)();
};

// In the order of smeltc --help, which is the order of use.
std::span<const CommandInfo> commandTable();

} // namespace smelt::driver
