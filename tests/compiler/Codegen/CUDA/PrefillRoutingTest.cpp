#include "tests/compiler/Codegen/CUDA/PrefillHarness.h"
#include "tests/compiler/Codegen/CUDA/PrefillPlan.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace smelt::codegen;
using namespace smelt::codegen::cuda;
using namespace smelt::codegen::cuda::test;

namespace {

const std::string CHIP = "sm_80";

void checkRoute(int64_t experts, int64_t top_k, int64_t tokens, bool sigmoid, bool renormalize) {
  KernelDesc kernel{
      "route_" + std::to_string(experts) + "_" + std::to_string(top_k),
      "route",
      {{"experts", experts}, {"top_k", top_k}, {"router", sigmoid}, {"renormalize", renormalize}}};
  Floats logits = randomFloats(tokens * experts, 1, 3.0f);
  for (size_t i = 0; i + 1 < logits.size(); i += 3) { // equal values, also across lanes
    logits[i] = logits[(i + 37) % logits.size()] = std::round(logits[i]);
  }
  if (experts > 2) {
    logits[0] = -0.0f;
    logits[2] = 0.0f;
  }
  Ints expected;
  Doubles expectedWeights;
  for (int64_t t = 0; t < tokens; ++t) {
    const float *row = &logits[t * experts];
    Ints order(experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    double all = 0, chosen = 0;
    auto score = [&](int64_t i) {
      return sigmoid ? 1 / (1 + std::exp(-double(row[i]))) : std::exp(double(row[i]) - row[order[0]]);
    };
    for (int64_t i = 0; i < experts; ++i) {
      all += score(i);
    }
    for (int64_t j = 0; j < top_k; ++j) {
      chosen += score(order[j]);
    }
    for (int64_t j = 0; j < top_k; ++j) {
      expected.push_back(order[j]);
      expectedWeights.push_back(score(order[j]) / (renormalize ? chosen : sigmoid ? 1.0 : all));
    }
  }
  Buffer input(logits), indices(Ints(tokens * top_k, -1)), weights(Floats(tokens * top_k, NAN));
  runKernel(kernel, CHIP, {&input, &indices, &weights}, {static_cast<int32_t>(tokens)}, {.tokens = tokens});
  INFO(kernel.name << ", " << tokens << " tokens, sigmoid " << sigmoid << ", renormalize " << renormalize);
  CHECK(indices.as<int32_t>() == expected);
  CHECK(relativeError(weights.as<float>(), expectedWeights) < 1e-5);
}

} // namespace

TEST_CASE("route of many tokens: order, ties, weights", "[cuda]") {
  for (bool sigmoid : {false, true}) {
    for (bool renormalize : {false, true}) {
      checkRoute(5, 2, 1, sigmoid, renormalize);
      checkRoute(70, 8, 33, sigmoid, renormalize);
    }
  }
  checkRoute(504, 8, 9, false, true);
  checkRoute(3, 3, 7, false, false);
  checkRoute(4100, 6, 3, true, true);
  checkRoute(1, 1, 9, false, true);
}

TEST_CASE("route of many tokens: indices stay in range whatever the logits", "[cuda]") {
  KernelDesc kernel{"route_nan", "route", {{"experts", 40}, {"top_k", 4}, {"router", 0}, {"renormalize", 1}}};
  for (uint32_t nan : {0x7fc00000u, 0xffffffffu}) {
    float value;
    std::memcpy(&value, &nan, sizeof value);
    Buffer input(Floats(40, value)), indices(Ints(4, -1)), weights(Floats(4, 0));
    runKernel(kernel, CHIP, {&input, &indices, &weights}, {1}, {.tokens = 1});
    for (int32_t index : indices.as<int32_t>()) {
      CHECK((index >= 0 && index < 40));
    }
  }
}

TEST_CASE("moe_plan of many tokens: stable, whatever the chunks", "[cuda]") {
  for (auto [experts, top_k, tokens] :
       {std::array<int64_t, 3>{5, 2, 1}, {5, 2, 130}, {504, 8, 9}, {40, 3, 200}, {1100, 1, 65}, {3, 3, 64}}) {
    KernelDesc kernel{"moe_plan_" + std::to_string(experts) + "_" + std::to_string(top_k),
                      "moe_plan",
                      {{"experts", experts}, {"top_k", top_k}}};
    Ints chosen = randomChoices(tokens, experts, top_k, 7);
    Ints expected = planOf(chosen, experts, top_k);
    Buffer indices(chosen), plan(Ints(expected.size(), 0));
    runKernel(kernel, CHIP, {&indices, &plan}, {static_cast<int32_t>(tokens)}, {.tokens = tokens});
    Ints found = plan.as<int32_t>();
    int32_t active = expected[experts + 1]; // entries behind the active experts mean nothing
    std::fill(found.begin() + experts + 2 + active, found.begin() + 2 * experts + 2, 0);
    INFO(kernel.name << ", " << tokens << " tokens");
    CHECK(found == expected);
  }
}

TEST_CASE("combine_residual of many tokens, in place", "[cuda]") {
  for (auto [hidden, top_k, tokens] :
       {std::array<int64_t, 3>{24, 2, 1}, {42, 3, 33}, {7, 1, 9}, {40, 17, 5}}) {
    int64_t experts = 20;
    KernelDesc kernel{"combine_" + std::to_string(hidden) + "_" + std::to_string(top_k),
                      "combine_residual",
                      {{"hidden", hidden}, {"experts", experts}, {"top_k", top_k}}};
    Ints chosen = randomChoices(tokens, experts, top_k, 3), plan = planOf(chosen, experts, top_k);
    Floats y = randomFloats(tokens * top_k * hidden, 1), weights = randomFloats(tokens * top_k, 2),
           x = randomFloats(tokens * hidden, 4);
    const int32_t *slotOf = &plan[2 * experts + 2 + tokens * top_k];
    Doubles expected;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < hidden; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < top_k; ++j) {
          sum += static_cast<double>(weights[t * top_k + j]) * y[slotOf[t * top_k + j] * hidden + i];
        }
        expected.push_back(x[t * hidden + i] + 0.5 * sum);
      }
    }
    Buffer rows(y), plans(plan), scales(weights), residual(x);
    runKernel(kernel, CHIP, {&rows, &plans, &scales, &residual, &residual},
              {static_cast<int32_t>(tokens), bitsOf(0.5f)}, {.tokens = tokens});
    INFO(kernel.name << ", " << tokens << " tokens");
    CHECK(relativeError(residual.as<float>(), expected) < 1e-6);
  }
}
