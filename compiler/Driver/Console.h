// What smeltc says: results on stdout, everything else on stderr.
#pragma once

#include "smelt/status.h"

#include <string>
#include <string_view>

namespace smelt::driver {

// "smeltc: error: ..." on stderr.
void printError(std::string_view message);

// "smeltc: note: ..." on stderr.
void printNote(std::string_view message);

// Prints to stdout; throws UserError(SMELT_io) when it cannot be written.
void printResult(std::string_view text);

// Reports a failure that no input should cause, and how to report it.
void printBug(std::string_view what);

// From now on a crash (a failed assertion, a wild access) says that it is a bug and exits with
// SMELT_internal.
void reportCrashes();

} // namespace smelt::driver
