// One local minimisation, by the bounded L-BFGS of NLopt.
#pragma once

#include "compiler/Law/FitObjective.h"

#include <span>

namespace smelt::law {

struct Bounds {
  Unknowns low = {};
  Unknowns high = {}; // equal to low for an unknown that is fixed
};

struct Minimum {
  Unknowns at = {};
  double value = 0;
};

// From `start`, which is moved into the bounds. The same result on every call and thread. The memory of past
// steps is dropped and the search repeated from its end until that gains nothing: near the kink of the Huber
// loss a search may stop early.
Minimum minimize(const FitObjective &objective, std::span<const double> weights, const Bounds &bounds,
                 Unknowns start);

} // namespace smelt::law
