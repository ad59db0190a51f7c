// Budgets as text and JSON.
#pragma once

#include "compiler/Budget/Budget.h"

#include <string>

namespace smelt::report {

std::string budgetTable(const spec::ModelSpec &spec, const budget::Budget &budget, budget::Attended attended);

// One object whose keys are the fields of Budget; integers.
std::string budgetJson(const budget::Budget &budget);

} // namespace smelt::report
