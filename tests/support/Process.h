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

// Runs arguments[0] (a path) with the arguments. `running` is called, with what the program wrote to stderr
// so far, whenever it wrote more; it may signal the process.
ProcessResult runProcess(const std::vector<std::string> &arguments,
                         const std::function<void(pid_t, const std::string &)> &running = {});

} // namespace smelt::tests
