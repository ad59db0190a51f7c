#include "compiler/Driver/Version.h"

#include <llvm/Config/llvm-config.h>

namespace smelt::driver {

std::string versionText() { return "smeltc " SMELT_VERSION " (LLVM " LLVM_VERSION_STRING ")"; }

} // namespace smelt::driver
