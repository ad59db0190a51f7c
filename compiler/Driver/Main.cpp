// smeltc: parses the command line, runs one command and turns what went wrong into a message and an exit
// code.
#include "compiler/Driver/Command.h"
#include "compiler/Driver/Console.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Driver/Version.h"
#include "compiler/Spec/Suggest.h"

#include <CLI/CLI.hpp>
#include <csignal>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <new>
#include <vector>

namespace smelt::driver {

namespace {

constexpr const char *overview =
    "Compiles sparse and looped transformers to native code.\n\n"
    "  smeltc plan baseline.toml --span 0.5 --visits 2 -o model.toml   derive a looped model of equal "
    "budgets\n"
    "  smeltc weights init model.toml -o model.safetensors --seed 1    give it random weights\n"
    "  smeltc compile model.toml -o model.smelt                        compile it\n"
    "  smeltc run model.smelt --weights model.safetensors --tokens 1,2,3 --max-new-tokens 16";

std::string exitCodes() {
  std::string text = "Exit codes (docs/errors.md):";
#define SMELT_APPEND_STATUS(name, code, text_) text += fmt::format("\n  {:>3}  {}", code, text_);
  SMELT_STATUS_TABLE(SMELT_APPEND_STATUS)
#undef SMELT_APPEND_STATUS
  return text;
}

// The innermost command that was named, whose help is the one to read.
const CLI::App *deepestCommand(const CLI::App *app) {
  for (const CLI::App *sub : app->get_subcommands()) {
    return deepestCommand(sub);
  }
  return app;
}

std::string fullName(const CLI::App *app) {
  return app->get_parent() ? fullName(app->get_parent()) + " " + app->get_name() : app->get_name();
}

// "unknown command" and "missing command" are told apart, which the parser does not do.
UserError usageError(const CLI::App &app, const CLI::ParseError &error) {
  const CLI::App *command = deepestCommand(&app);
  std::vector<std::string> names;
  for (const CLI::App *sub : command->get_subcommands([](const CLI::App *) { return true; })) {
    if (!sub->get_name().empty()) { // option groups are nameless
      names.push_back(sub->get_name());
    }
  }
  std::string problem = error.what();
  if (!names.empty()) {
    std::vector<std::string> extras = command->remaining();
    std::vector<std::string_view> candidates(names.begin(), names.end());
    problem = extras.empty()
                  ? fmt::format("'{}' needs a command: {}", fullName(command), fmt::join(names, ", "))
                  : fmt::format("'{}' is not a command of '{}'{}", extras.front(), fullName(command),
                                spec::suggestion(extras.front(), candidates));
  }
  return UserError(SMELT_usage, fmt::format("{}\ntry '{} --help'", problem, fullName(command)));
}

class CommandLine {
public:
  CommandLine() : app(overview, "smeltc") {
    app.set_version_flag("--version", versionText());
    app.require_subcommand(1);
    app.get_formatter()->label("REQUIRED", "");
    app.footer("smeltc COMMAND --help describes a command.\n\n" + exitCodes());
    app.get_formatter()->column_width(36);
    for (const CommandInfo &info : commandTable()) {
      CLI::App *sub = app.add_subcommand(info.name, info.summary);
      sub->footer("");
      commands.push_back(info.create());
      commands.back()->declare(*sub);
      parsers.push_back(sub);
    }
  }

  smelt_status parseAndRun(int argc, char **argv) {
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp &) {
      const CLI::App *command = deepestCommand(&app);
      printResult(command->help(command->get_parent() ? fullName(command->get_parent()) : ""));
      return SMELT_ok;
    } catch (const CLI::CallForVersion &) {
      printResult(versionText() + "\n");
      return SMELT_ok;
    } catch (const CLI::ParseError &error) {
      throw usageError(app, error);
    }
    for (size_t i = 0; i < commands.size(); ++i) {
      if (parsers[i]->parsed()) {
        return commands[i]->run();
      }
    }
    return SMELT_internal;
  }

private:
  CLI::App app;
  std::vector<std::unique_ptr<Command>> commands;
  std::vector<CLI::App *> parsers;
};

int runProgram(int argc, char **argv) {
  try {
    return CommandLine().parseAndRun(argc, argv);
  } catch (const UserError &error) {
    printError(error.what());
    return error.status();
  } catch (const std::bad_alloc &) {
    printError("out of memory");
    return SMELT_memory;
  } catch (const std::exception &error) {
    printBug(error.what());
    return SMELT_internal;
  }
}

} // namespace

} // namespace smelt::driver

int main(int argc, char **argv) {
  smelt::driver::reportCrashes();
  // A file size limit then shows as a failed write, which names the file.
  std::signal(SIGXFSZ, SIG_IGN);
  return smelt::driver::runProgram(argc, argv);
}
