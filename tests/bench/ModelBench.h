// Prefill and decode of one compiled model, sampled several times.
#pragma once

#include "tests/bench/Placement.h"
#include "tests/bench/Statistics.h"

#include <string>
#include <vector>

namespace smelt::bench {

struct ModelRequest {
  std::string artifact;
  std::vector<std::string> weights;
  std::string isa; // empty: the best of the machine
  unsigned threads = 0;
  unsigned repeats = 5;
};

struct Measurement {
  std::string phase; // "prefill 128", "decode x4"
  Summary tokens_per_second;
  double gflops = 0;            // of the kernels' multiply-adds, in the median sample
  double gbytes_per_second = 0; // each touched weight and cache byte once per kernel launch
  double experts = 0;           // distinct experts per layer and step, mean; 0 without MoE layers
  Placement placement = Placement::single;
  unsigned kept = 0, dropped = 0; // samples; those whose placement changed or differs from most are dropped
};

struct ModelResult {
  std::string model, isa, weights_dtype;
  std::vector<Measurement> measurements;
  std::string error; // not empty: nothing was measured
};

// Prefill of each of `prefills` tokens into an empty cache, then decode of `decodeSteps` steps with each of
// `batches` sequences.
ModelResult benchModel(const ModelRequest &request, const std::vector<unsigned> &prefills,
                       const std::vector<unsigned> &batches, unsigned decodeSteps);

} // namespace smelt::bench
