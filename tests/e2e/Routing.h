// Whether a compiled model routed tokens as the interpreter does.
#pragma once

#include "tests/support/InterpretedModel.h"
#include "tests/support/RuntimeModel.h"

#include <vector>

namespace smelt::tests {

// Catch2 assertions: every choice is the interpreter's, or the scores of the experts that differ are closer
// than `tolerance` of the largest score, which leaves the choice open. The interpreter must have followed
// `compiled`.
void requireSameRouting(const std::vector<RoutingChoice> &compiled, const std::vector<ScoredChoice> &expected,
                        double tolerance);

} // namespace smelt::tests
