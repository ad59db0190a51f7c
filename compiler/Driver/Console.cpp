#include "compiler/Driver/Console.h"

#include "compiler/Driver/UserError.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>

#include <unistd.h>

namespace smelt::driver {

namespace {

constexpr const char *report_advice =
    "this is a bug in smeltc; please report it with the command and its input files";

void printTagged(const char *tag, std::string_view message) {
  // Results printed before the message stay before it when both streams go to one place.
  std::fflush(stdout);
  while (!message.empty() && message.back() == '\n') {
    message.remove_suffix(1);
  }
  fmt::print(stderr, "smeltc: {}: {}\n", tag, message);
}

void writeRaw(std::string_view text) {
  // Only write(2) is safe here, and there is nothing to do about its failure.
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

extern "C" void onCrash(int signal) {
  writeRaw("\nsmeltc: internal error: stopped by ");
  writeRaw(signal == SIGABRT  ? "a failed assertion"
           : signal == SIGFPE ? "an arithmetic fault"
                              : "a memory fault");
  writeRaw("\nsmeltc: internal error: ");
  writeRaw(report_advice);
  writeRaw("\n");
  ::_exit(SMELT_internal);
}

} // namespace

void printError(std::string_view message) { printTagged("error", message); }

void printNote(std::string_view message) { printTagged("note", message); }

void printResult(std::string_view text) {
  bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) {
    throw UserError(SMELT_io, fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
}

void printBug(std::string_view what) {
  printTagged("internal error", what);
  printTagged("internal error", report_advice);
}

void reportCrashes() {
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, onCrash);
  }
}

} // namespace smelt::driver
