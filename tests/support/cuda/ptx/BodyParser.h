// Variables and kernel bodies: the parts of PTX that have scopes.
#pragma once

#include "tests/support/cuda/ptx/Cursor.h"

#include <unordered_map>

namespace smelt::emu {

/// Indices into Module::variables by name, for one scope.
using NameTable = std::unordered_map<std::string, uint32_t>;

/// True for ".global", ".shared", ".const" and ".local".
bool isVariableSpace(std::string_view word);

/// Parses a declaration that starts at its state space, through the ';'. Names go to `names`.
void parseVariables(Cursor &cursor, Module &module, NameTable &names, bool external);

/// Parses a kernel's { body }: registers, variables, labels and statements of all nested scopes, flattened
/// into `kernel`. Labels become statement indices.
void parseBody(Cursor &cursor, Module &module, const NameTable &globals, Function &kernel);

} // namespace smelt::emu
