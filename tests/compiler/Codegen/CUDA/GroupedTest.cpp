#include "tests/compiler/Codegen/CUDA/PrefillHarness.h"
#include "tests/compiler/Codegen/CUDA/PrefillPlan.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace smelt::codegen;
using namespace smelt::codegen::cuda;
using namespace smelt::codegen::cuda::test;

namespace {

struct Experts {
  int64_t hidden, expert_hidden, experts, top_k;
};

KernelDesc kernelOf(const char *role, const Experts &x) {
  std::string name = role;
  for (int64_t size : {x.hidden, x.expert_hidden, x.experts, x.top_k}) {
    name += "_" + std::to_string(size);
  }
  return {name,
          role,
          {{"hidden", x.hidden},
           {"expert_hidden", x.expert_hidden},
           {"experts", x.experts},
           {"top_k", x.top_k},
           {"dtype", 1}}};
}

double dot(const float *a, const float *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

void check(const Experts &x, int64_t tokens, int skew, const std::string &chip) {
  int64_t slots = tokens * x.top_k, size = x.hidden * x.expert_hidden;
  Ints choices = randomChoices(tokens, x.experts, x.top_k, 5, skew),
       plan = planOf(choices, x.experts, x.top_k);
  Floats xn = randomFloats(tokens * x.hidden, 1);
  Floats gate = randomWeights(x.experts * size, 2, 0.2f), up = randomWeights(x.experts * size, 3, 0.2f),
         down = randomWeights(x.experts * size, 4, 0.2f);
  Floats h = randomFloats(slots * x.expert_hidden, 6);
  Doubles expectedH, expectedY;
  for (int64_t slot = 0, expert = 0; slot < slots; ++slot) {
    while (plan[expert + 1] <= slot) {
      ++expert;
    }
    const float *row = &xn[plan[2 * x.experts + 2 + slot] * x.hidden];
    for (int64_t f = 0; f < x.expert_hidden; ++f) {
      double g = dot(row, &gate[expert * size + f * x.hidden], x.hidden);
      expectedH.push_back(g / (1 + std::exp(-g)) * dot(row, &up[expert * size + f * x.hidden], x.hidden));
    }
    for (int64_t i = 0; i < x.hidden; ++i) {
      expectedY.push_back(
          dot(&h[slot * x.expert_hidden], &down[expert * size + i * x.expert_hidden], x.expert_hidden));
    }
  }
  Buffer rows(xn), plans(plan), gates(packTiles(gate, x.experts, x.expert_hidden, x.hidden)),
      ups(packTiles(up, x.experts, x.expert_hidden, x.hidden)),
      downs(packTiles(down, x.experts, x.hidden, x.expert_hidden)), inner(h),
      outH(Floats(expectedH.size(), NAN)), outY(Floats(expectedY.size(), NAN));
  Ints constants = {static_cast<int32_t>(tokens)};
  INFO(x.hidden << " x " << x.expert_hidden << ", " << x.top_k << " of " << x.experts << ", " << tokens
                << " tokens, skew " << skew << ", " << chip);
  runKernel(kernelOf("experts_gate_up", x), chip, {&rows, &plans, &gates, &ups, &outH}, constants,
            {.tokens = tokens});
  CHECK(relativeError(outH.as<float>(), expectedH) < 1e-2);
  runKernel(kernelOf("experts_down", x), chip, {&inner, &plans, &downs, &outY}, constants,
            {.tokens = tokens});
  CHECK(relativeError(outY.as<float>(), expectedY) < 1e-2);
}

} // namespace

TEST_CASE("experts of many tokens: odd sizes, experts without rows, tiles of every width", "[cuda]") {
  for (const std::string &chip : testedChips()) {
    for (int64_t tokens : {1, 7, 9, 33, 130}) {
      check({24, 20, 5, 2}, tokens, 0, chip);
    }
    check({130, 70, 3, 1}, 40, 0, chip);  // two row blocks, ragged columns
    check({64, 64, 4, 2}, 20, 2, chip);   // whole tiles
    check({72, 136, 40, 4}, 12, 0, chip); // most experts have no row
    check({600, 24, 3, 1}, 70, 1, chip);  // the ring of stages goes round
    check({24, 600, 3, 1}, 70, 1, chip);
    check({24, 20, 2, 1}, 150, 1, chip); // more slots than a tile holds
  }
}

TEST_CASE("experts of many tokens: the shape of a 1.6B model's", "[cuda]") {
  for (const std::string &chip : testedChips()) {
    check({1848, 616, 2, 1}, 10, 0, chip);
  }
}
