#include "compiler/Driver/ContextOptions.h"

#include "compiler/Driver/Options.h"

namespace smelt::driver {
namespace {

CLI::Validator contextWords() {
  return CLI::Validator(
      [](std::string &text) -> std::string {
        return budget::Context::parse(text)
                   ? ""
                   : "'" + text + "' is not mean:N, full:S, causal:S, window:S:W or packed:L1,L2,...";
      },
      "");
}

} // namespace

void ContextOptions::declare(CLI::App &app) {
  CLI::Option *mean =
      app.add_option("--attended", attended,
                     "Mean number of positions a token attends to (default " + budget::Attended().text() +
                         ", that of the published grid; over S causal positions it is (S+1)/2)")
          ->check(attendedPositions())
          ->type_name("N");
  app.add_option("--context", words,
                 "Positions attended to, exactly: full:S, causal:S, window:S:W, packed:L1,L2,... or mean:N")
      ->check(contextWords())
      ->type_name("KIND:S")
      ->excludes(mean);
}

budget::Context ContextOptions::context() const {
  if (!words.empty()) {
    return *budget::Context::parse(words);
  }
  return attended.empty() ? budget::Context() : budget::Context(*budget::Attended::parse(attended));
}

int64_t ContextOptions::sequenceLength() const {
  constexpr std::string_view causal = "causal:";
  return words.starts_with(causal) ? std::stoll(words.substr(causal.size())) : 4096;
}

} // namespace smelt::driver
