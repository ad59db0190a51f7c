// Resampling of cells, for the intervals of a fit.
#pragma once

#include "compiler/Law/Fit.h"
#include "compiler/Law/Minimize.h"

#include <span>
#include <string>
#include <vector>

namespace smelt::law {

// The cell of each run, as an index from 0 in order of appearance.
struct Cells {
  std::vector<size_t> of_run;
  size_t count = 0;
};
Cells findCells(std::span<const Run> runs);

struct Bootstrap {
  std::vector<Coefficients> draws;
  size_t redrawn = 0;
  std::string error; // why there are no draws
};

// Draws as many cells as there are, with replacement, and fits what was drawn from each of the starts. A
// resample that cannot determine the coefficients is drawn again. Draw i depends on the seed and i alone.
Bootstrap bootstrapCells(std::span<const Run> runs, const Cells &cells, const FitObjective &objective,
                         const Bounds &bounds, std::span<const Unknowns> starts, const FitOptions &options);

} // namespace smelt::law
