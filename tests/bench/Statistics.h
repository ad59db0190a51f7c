// Medians and spreads of repeated samples.
#pragma once

#include <functional>
#include <vector>

namespace smelt::bench {

// Seconds since an arbitrary point, monotonic.
double now();

struct Summary {
  double median = 0;
  double spread = 0; // (75th - 25th percentile) / median
};
Summary summarize(std::vector<double> samples);

// Runs body(worker) on `threads` threads pinned to CPUs 0, 1, ...; returns the wall seconds from the first
// start to the last end.
double timeOnThreads(unsigned threads, const std::function<void(unsigned worker)> &body);

} // namespace smelt::bench
