// The tables of a plan, for text and Markdown alike.
#pragma once

#include "compiler/Report/Table.h"

namespace smelt::spec {
struct ModelSpec;
}
namespace smelt::planner {
struct Plan;
}

namespace smelt::report {

Table budgetsTable(const planner::Plan &plan);
Table shapesTable(const spec::ModelSpec &baseline, const planner::Plan &plan);
Table frontPoints(const planner::Plan &plan);
Table knobsTable(const spec::ModelSpec &baseline, const planner::Plan &plan);

} // namespace smelt::report
