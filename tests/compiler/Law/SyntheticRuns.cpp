#include "tests/compiler/Law/SyntheticRuns.h"

#include <cmath>
#include <fmt/format.h>
#include <random>

namespace smelt::tests {

namespace {

// Irwin-Hall with twelve terms: the same on every platform, unlike std::normal_distribution.
double roughlyNormal(std::mt19937_64 &random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) {
    sum += static_cast<double>(random() >> 11) * 0x1p-53;
  }
  return sum;
}

} // namespace

std::vector<law::Run> syntheticRuns(const law::ScalingLaw &law, double noise, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<law::Run> runs;
  for (double flops : {6.4e8, 1.33e9, 4.2e9, 1.02e10}) {
    for (double sparsity : {0.85, 0.95, 0.97}) {
      for (double tokens : {2.05e10, 3.1e10, 6.2e10, 1.15e11, 1.67e11, 2.15e11}) {
        law::Run run;
        run.training_flops_per_token = flops;
        run.sparsity = sparsity;
        run.tokens = tokens;
        run.loss = law::loss(law, run) * std::exp(noise * roughlyNormal(random));
        run.cell = fmt::format("{}/{}", flops, sparsity);
        runs.push_back(run);
      }
    }
  }
  return runs;
}

} // namespace smelt::tests
