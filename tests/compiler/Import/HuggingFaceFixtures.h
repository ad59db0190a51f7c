// Reading the small configs of this folder.
#pragma once

#include "compiler/Budget/Accounting.h"
#include "compiler/Import/HuggingFace.h"

#include <string>

namespace smelt::tests {

// Fails the running test with the problems of a config that is not understood.
hf::Model readFixture(const std::string &name);
budget::Account accountOf(const hf::Model &model, const budget::Context &context);

} // namespace smelt::tests
