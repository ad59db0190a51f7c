// Runs a program and captures what it says.
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace smelt::tests {

struct ProcessResult {
  int exit_code = -1; // -1 when a signal ended it
  int signal = 0;
  std::string out, err;
};

// Runs arguments[0] (a path) with the arguments. `watch` is called every few milliseconds with what the
// program wrote so far; it may signal the process.
ProcessResult runProcess(const std::vector<std::string> &arguments,
                         const std::function<void(pid_t, const ProcessResult &)> &watch = {});

} // namespace smelt::tests
