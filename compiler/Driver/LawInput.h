// What the law commands read: laws by name or file, and numbers of their options.
#pragma once

#include "compiler/Law/ScalingLaw.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace smelt::driver {

// A published law by its name, or one from a file that `smeltc law fit -o` wrote. Throws UserError with every
// problem the file has.
law::ScalingLaw loadLaw(const std::string &name_or_path);

// The text of a file, at most 64 MiB of it; throws UserError(SMELT_io).
std::string readTextFile(const std::string &path);

// Numbers above 0, such as 1e21.
CLI::Validator positiveNumber();

// 0, or from 1 to below 100: a sparsity of 0.85 % is a slip for 85 %.
CLI::Validator sparsityPercent();

} // namespace smelt::driver
