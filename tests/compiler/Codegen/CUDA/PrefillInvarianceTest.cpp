// A token's results are the same bits whoever shares its step: tiles of other widths, other experts' rows and
// other sequences' tokens change nothing.
#include "tests/compiler/Codegen/CUDA/PrefillHarness.h"
#include "tests/compiler/Codegen/CUDA/PrefillPlan.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace smelt::codegen;
using namespace smelt::codegen::cuda;
using namespace smelt::codegen::cuda::test;

namespace {

// Rows `first` to `first + count` of a matrix with `width` columns.
template <typename T>
std::vector<T> rowsOf(const std::vector<T> &all, int64_t first, int64_t count, int64_t width) {
  return {all.begin() + first * width, all.begin() + (first + count) * width};
}

} // namespace

TEST_CASE("a product's rows do not depend on how many there are", "[cuda]") {
  constexpr int64_t in = 200, out = 70, tokens = 130;
  KernelDesc kernel{
      "linear_residual_invariance", "linear_residual", {{"in", in}, {"out", out}, {"dtype", 1}}};
  Floats a = randomFloats(tokens * in, 1), x = randomFloats(tokens * out, 2);
  Buffer weights(packRows(randomWeights(in * out, 3), out, in));
  auto run = [&](int64_t first, int64_t count) {
    Buffer input(rowsOf(a, first, count, in)), residual(rowsOf(x, first, count, out));
    runKernel(kernel, "sm_80", {&input, &weights, &residual, &residual},
              {static_cast<int32_t>(count), bitsOf(0.5f)}, {.tokens = count});
    return residual.as<float>();
  };
  Floats all = run(0, tokens);
  for (auto [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {5, 9}, {90, 33}, {20, 65}}) {
    CHECK(run(first, count) == rowsOf(all, first, count, out));
  }
}

TEST_CASE("attention of a token does not depend on the tokens beside it", "[cuda]") {
  constexpr int64_t heads = 6, kv = 2, dim = 42, tokens = 100, width = heads * dim, capacity = 112;
  KernelDesc kernel{"attention_invariance",
                    "attention",
                    {{"query_heads", heads}, {"kv_heads", kv}, {"head_dim", dim}, {"kv", 1}}};
  Floats q = randomFloats(tokens * width, 1);
  Floats cache = randomWeights(kv * capacity * roundUp(dim, 8), 2);
  for (size_t i = 0; i < cache.size(); ++i) {
    cache[i] = static_cast<int64_t>(i % roundUp(dim, 8)) < dim ? cache[i] : 0.0f;
  }
  Buffer keys(packVector(cache)), values(packVector(cache));
  auto run = [&](int64_t first, int64_t count) {
    Ints positions, ids(count, 0);
    for (int64_t t = first; t < first + count; ++t) {
      positions.push_back(static_cast<int32_t>(t));
    }
    Buffer queries(rowsOf(q, first, count, width)), position(positions), sequence(ids),
        out(Floats(count * width, NAN));
    runKernel(kernel, "sm_80", {&queries, &position, &sequence, &keys, &values, &out},
              {static_cast<int32_t>(count), static_cast<int32_t>(capacity)},
              {.tokens = count, .capacity = capacity});
    return out.as<float>();
  };
  Floats all = run(0, tokens);
  for (auto [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {77, 1}, {10, 9}, {50, 33}}) {
    CHECK(run(first, count) == rowsOf(all, first, count, width));
  }
}

TEST_CASE("an expert's rows do not depend on how many it has", "[cuda]") {
  constexpr int64_t hidden = 200, inner = 70, experts = 3, tokens = 150;
  KernelDesc kernel{
      "experts_gate_up_invariance",
      "experts_gate_up",
      {{"hidden", hidden}, {"expert_hidden", inner}, {"experts", experts}, {"top_k", 1}, {"dtype", 1}}};
  Floats x = randomFloats(tokens * hidden, 1);
  Ints choices = randomChoices(tokens, experts, 1, 3, 1);
  Buffer gate(packTiles(randomWeights(experts * hidden * inner, 4), experts, inner, hidden));
  Buffer up(packTiles(randomWeights(experts * hidden * inner, 5), experts, inner, hidden));
  for (const std::string &chip : testedChips()) {
    // Results in the order of tokens.
    auto run = [&](int64_t first, int64_t count) {
      Ints plan = planOf(rowsOf(choices, first, count, 1), experts, 1);
      Buffer rows(rowsOf(x, first, count, hidden)), plans(plan), h(Floats(count * inner, NAN));
      runKernel(kernel, chip, {&rows, &plans, &gate, &up, &h}, {static_cast<int32_t>(count)},
                {.tokens = count});
      Floats bySlot = h.as<float>(), byToken;
      for (int64_t t = 0; t < count; ++t) {
        Floats row = rowsOf(bySlot, plan[2 * experts + 2 + count + t], 1, inner);
        byToken.insert(byToken.end(), row.begin(), row.end());
      }
      return byToken;
    };
    Floats all = run(0, tokens);
    for (auto [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {5, 9}, {90, 33}, {20, 65}}) {
      INFO(chip);
      CHECK(run(first, count) == rowsOf(all, first, count, inner));
    }
  }
}
