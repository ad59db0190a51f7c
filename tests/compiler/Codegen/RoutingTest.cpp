#include "tests/compiler/Codegen/KernelHarness.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

using namespace smelt::codegen;
using namespace smelt::codegen::test;

namespace {

void checkRoute(const cpu::IsaLevel &level, int64_t experts, int64_t topK, bool sigmoid, bool renormalize,
                bool ties, int workers) {
  int64_t tokens = 9;
  KernelDesc kernel{
      "route_test",
      "route",
      {{"experts", experts}, {"top_k", topK}, {"router", sigmoid}, {"renormalize", renormalize}}};
  Floats logits = randomFloats(tokens * experts, 5, 3.0f), weights(tokens * topK, NAN);
  if (ties) {
    for (float &value : logits) {
      value = std::round(value / 2);
    }
  }
  std::vector<int32_t> indices(tokens * topK, -1);
  LoadedKernel(kernel, level).run({logits.data(), indices.data(), weights.data()}, {9}, workers);
  std::vector<double> expected;
  for (int64_t t = 0; t < tokens; ++t) {
    const float *row = &logits[t * experts];
    std::vector<int32_t> order(experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    double all = 0, chosen = 0;
    for (int64_t i = 0; i < experts; ++i) {
      all += std::exp(static_cast<double>(row[i]));
    }
    std::vector<double> w;
    for (int64_t j = 0; j < topK; ++j) {
      REQUIRE(indices[t * topK + j] == order[j]);
      double logit = row[order[j]];
      w.push_back(sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit) / all);
      chosen += w.back();
    }
    for (double value : w) {
      expected.push_back(renormalize ? value / chosen : value);
    }
  }
  INFO("experts " << experts << " top_k " << topK << " sigmoid " << sigmoid << " renormalize "
                  << renormalize);
  CHECK(relativeError(weights, expected) < 1e-6);
}

} // namespace

TEST_CASE("route: every router, ties to the lower index, top_k up to all experts") {
  for (const cpu::IsaLevel *level : runnableLevels()) {
    for (auto [experts, topK] :
         {std::pair<int64_t, int64_t>{8, 8}, {5, 2}, {504, 8}, {33, 1}, {1, 1}, {16, 3}}) {
      for (int mode = 0; mode < 8; ++mode) {
        checkRoute(*level, experts, topK, mode & 1, mode & 2, mode & 4, 1 + mode % 3);
      }
    }
  }
}

TEST_CASE("route: NaN logits still choose experts that exist") {
  for (const cpu::IsaLevel *level : runnableLevels()) {
    KernelDesc kernel{
        "route_test", "route", {{"experts", 5}, {"top_k", 3}, {"router", 0}, {"renormalize", 1}}};
    Floats logits(5, NAN), weights(3);
    std::vector<int32_t> indices(3, -1);
    LoadedKernel(kernel, *level).run({logits.data(), indices.data(), weights.data()}, {1}, 1);
    for (int32_t index : indices) {
      CHECK((index >= 0 && index < 5));
    }
  }
}

TEST_CASE("moe_plan sorts pairs by expert, then token") {
  for (const cpu::IsaLevel *level : runnableLevels()) {
    int64_t experts = 7, topK = 3, tokens = 20;
    KernelDesc kernel{"moe_plan_test", "moe_plan", {{"experts", experts}, {"top_k", topK}}};
    std::mt19937 generator(3);
    std::vector<int32_t> indices;
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<int32_t> order = {0, 1, 2, 4, 6}; // experts 3 and 5 stay empty
      std::shuffle(order.begin(), order.end(), generator);
      indices.insert(indices.end(), order.begin(), order.begin() + topK);
    }
    std::vector<int32_t> plan(2 * experts + 2 + 2 * tokens * topK, -1);
    LoadedKernel(kernel, *level).run({indices.data(), plan.data()}, {static_cast<int32_t>(tokens)}, 2);
    const int32_t *active = &plan[experts + 2], *slotToken = &plan[2 * experts + 2];
    const int32_t *slotOf = slotToken + tokens * topK;
    REQUIRE(plan[experts + 1] == 5);
    CHECK(std::vector<int32_t>(active, active + 5) == std::vector<int32_t>{0, 1, 2, 4, 6});
    CHECK(plan[0] == 0);
    CHECK(plan[experts] == tokens * topK);
    for (int64_t expert = 0; expert < experts; ++expert) {
      CHECK(plan[expert + 1] - plan[expert] == std::count(indices.begin(), indices.end(), expert));
      for (int32_t slot = plan[expert] + 1; slot < plan[expert + 1]; ++slot) {
        CHECK(slotToken[slot - 1] < slotToken[slot]);
      }
    }
    for (int64_t pair = 0; pair < tokens * topK; ++pair) {
      int32_t slot = slotOf[pair], expert = indices[pair];
      CHECK(slotToken[slot] == pair / topK);
      CHECK((slot >= plan[expert] && slot < plan[expert + 1]));
    }
  }
}
