// Ctrl-C and SIGTERM ask the running command to stop; it removes what it has half written and exits with
// SMELT_interrupted. A second one ends the process at once.
#pragma once

namespace smelt::driver {

void watchForInterrupts();
// Whether one has arrived. Any thread.
bool interrupted();
// Throws UserError(SMELT_interrupted) when one has arrived.
void stopIfInterrupted();

} // namespace smelt::driver
