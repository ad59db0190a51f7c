// Training runs that follow a law, with noise: a study of 4 sizes, 3 sparsities and 6 lengths of training.
#pragma once

#include "compiler/Law/Runs.h"

#include <vector>

namespace smelt::tests {

// noise: standard deviation of log loss, approximately normal; 0 for runs exactly on the law.
std::vector<law::Run> syntheticRuns(const law::ScalingLaw &law, double noise, uint64_t seed);

} // namespace smelt::tests
