// Where the lanes of a divergent branch meet again.
#pragma once

#include "tests/support/cuda/sim/Program.h"

namespace smelt::emu {

/// Sets Instr::reconverge of every branch to its immediate post-dominator (kNoPc if only the exit is) and
/// flags the join points. Edges to a bare `ret` are left out where the branch has another way to go: lanes
/// that leave early do not keep the others from meeting.
void findReconvergence(Program &program);

} // namespace smelt::emu
