// The tables of a plan, for text and Markdown alike.
#pragma once

#include "compiler/Report/Table.h"

namespace smelt::planner {
struct Baseline;
struct Plan;
} // namespace smelt::planner

namespace smelt::report {

Table budgetsTable(const planner::Plan &plan);
Table shapesTable(const planner::Baseline &baseline, const planner::Plan &plan);
Table frontPoints(const planner::Plan &plan);
Table knobsTable(const planner::Baseline &baseline, const planner::Plan &plan);

} // namespace smelt::report
