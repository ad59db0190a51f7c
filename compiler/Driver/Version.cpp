#include "compiler/Driver/Version.h"

#include <llvm/Config/llvm-config.h>

namespace smelt::driver {

std::string producerText() { return "smeltc " SMELT_VERSION; }

std::string versionText() { return producerText() + " (LLVM " LLVM_VERSION_STRING ")"; }

} // namespace smelt::driver
