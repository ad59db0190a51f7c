// Training runs to fit a law to, and the CSV file they come in.
#pragma once

#include "compiler/Law/ScalingLaw.h"
#include "compiler/Spec/Diagnostics.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::law {

// The final loss of one training run.
struct Run : TrainingRun {
  double loss = 0;  // nats per token, more than 0
  std::string cell; // runs of one model share it: they are resampled together
  int64_t line = 0; // in the file
};

struct RunsResult {
  std::vector<Run> runs;
  std::vector<std::string> ignored_columns; // in file order
  spec::Diagnostics diagnostics;            // empty when the runs are usable

  explicit operator bool() const { return diagnostics.empty(); }
};

// A header line with the columns training_flops_per_token, sparsity_percent, tokens, loss and, if given,
// cell, in any order, then one run a line. Fields are separated by commas and may be in double quotes; empty
// lines and lines that start with # are skipped. Without a cell column, runs with equal FLOPs per token and
// sparsity are one cell. Every problem is reported with its line and column.
RunsResult readRuns(std::string_view text, std::string file_name);

} // namespace smelt::law
