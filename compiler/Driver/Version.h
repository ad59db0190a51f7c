#pragma once

#include <string>

namespace smelt::driver {

// "smeltc 0.1.0 (LLVM 22.1.0)"
std::string versionText();
// "smeltc 0.1.0", as artifacts name their producer.
std::string producerText();

} // namespace smelt::driver
