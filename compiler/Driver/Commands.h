// The constructors that CommandTable.cpp lists.
#pragma once

#include "compiler/Driver/Command.h"

namespace smelt::driver {

std::unique_ptr<Command> makeBudgetCommand();
std::unique_ptr<Command> makeDiffCommand();
std::unique_ptr<Command> makeLatencyCommand();
std::unique_ptr<Command> makeImportCommand();
std::unique_ptr<Command> makePlanCommand();
std::unique_ptr<Command> makeLawCommand();
std::unique_ptr<Command> makeWeightsCommand();
std::unique_ptr<Command> makeCompileCommand();
std::unique_ptr<Command> makeRunCommand();
std::unique_ptr<Command> makeInspectCommand();
std::unique_ptr<Command> makeDoctorCommand();

} // namespace smelt::driver
