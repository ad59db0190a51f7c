// Branches and exits, as the reconvergence analysis needs to recognise them.
#pragma once

#include "tests/support/cuda/sim/Program.h"

namespace smelt::emu {

bool isBranch(const Instr &in);
bool isExit(const Instr &in);

} // namespace smelt::emu
