// Reading the spec a command was given.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <string>

namespace smelt::driver {

// Throws UserError with every problem the file has.
spec::ModelSpec loadSpec(const std::string &path);

} // namespace smelt::driver
