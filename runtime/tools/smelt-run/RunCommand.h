// The command behind `smelt-run` and `smeltc run`.
#pragma once

#include "runtime/tools/smelt-run/RunOptions.h"

#include <string>

namespace smelt::runtime {

// Runs the model: generated tokens to standard output as they come, speed to standard error, errors to
// standard error as "PROGRAM: error: message". Returns the exit code (status.h).
int runCommand(const RunOptions &options, const std::string &program);

} // namespace smelt::runtime
