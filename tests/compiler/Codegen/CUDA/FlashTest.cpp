#include "tests/compiler/Codegen/CUDA/PrefillHarness.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace smelt::codegen;
using namespace smelt::codegen::cuda;
using namespace smelt::codegen::cuda::test;

namespace {

struct Heads {
  int64_t query, kv, dim;
};

// A step: which positions of which sequences, in this order.
struct Step {
  std::string name;
  Ints sequences, positions;
};

Step run(std::string name, std::vector<std::array<int32_t, 3>> runs) { // sequence, first position, count
  Step step{std::move(name), {}, {}};
  for (auto [sequence, first, count] : runs) {
    for (int32_t i = 0; i < count; ++i) {
      step.sequences.push_back(sequence);
      step.positions.push_back(first + i);
    }
  }
  return step;
}

void check(const Heads &h, const Step &step, const std::string &chip) {
  int64_t tokens = step.positions.size(), width = h.query * h.dim, padded = roundUp(h.dim, 8);
  int32_t sequences = 1 + *std::max_element(step.sequences.begin(), step.sequences.end());
  int32_t longest = 1 + *std::max_element(step.positions.begin(), step.positions.end());
  int64_t capacity = roundUp(longest, 16);
  Floats q = randomFloats(tokens * width, 1);
  // The cache holds exactly what the step may read; anything else is NaN, but for the zero padding of a row.
  auto cache = [&](uint32_t seed) {
    Floats values = randomWeights(sequences * h.kv * capacity * padded, seed);
    std::vector<int32_t> filled(sequences, -1);
    for (int64_t t = 0; t < tokens; ++t) {
      filled[step.sequences[t]] = std::max(filled[step.sequences[t]], step.positions[t]);
    }
    for (int64_t row = 0; row < sequences * h.kv * capacity; ++row) {
      int64_t position = row % capacity, sequence = row / capacity / h.kv;
      for (int64_t i = 0; i < padded; ++i) {
        if (position > filled[sequence]) {
          values[row * padded + i] = NAN;
        } else if (i >= h.dim) {
          values[row * padded + i] = 0;
        }
      }
    }
    return values;
  };
  Floats k = cache(2), v = cache(3);
  Doubles expected(tokens * width);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t head = 0; head < h.query; ++head) {
      int64_t base = (step.sequences[t] * h.kv + head / (h.query / h.kv)) * capacity;
      const float *query = &q[t * width + head * h.dim];
      Doubles scores(step.positions[t] + 1);
      double top = -INFINITY, sum = 0;
      for (size_t p = 0; p < scores.size(); ++p) {
        for (int64_t i = 0; i < h.dim; ++i) {
          scores[p] += static_cast<double>(query[i]) * k[(base + p) * padded + i];
        }
        scores[p] /= std::sqrt(static_cast<double>(h.dim));
        top = std::max(top, scores[p]);
      }
      for (double &score : scores) {
        sum += score = std::exp(score - top);
      }
      for (size_t p = 0; p < scores.size(); ++p) {
        for (int64_t i = 0; i < h.dim; ++i) {
          expected[t * width + head * h.dim + i] += scores[p] / sum * v[(base + p) * padded + i];
        }
      }
    }
  }
  KernelDesc kernel{"attention_q" + std::to_string(h.query) + "_k" + std::to_string(h.kv) + "_d" +
                        std::to_string(h.dim),
                    "attention",
                    {{"query_heads", h.query}, {"kv_heads", h.kv}, {"head_dim", h.dim}, {"kv", 1}}};
  Buffer queries(q), positions(step.positions), ids(step.sequences), keys(packVector(k)),
      values(packVector(v)), out(Floats(tokens * width, NAN));
  runKernel(kernel, chip, {&queries, &positions, &ids, &keys, &values, &out},
            {static_cast<int32_t>(tokens), static_cast<int32_t>(capacity)},
            {.tokens = tokens, .capacity = capacity});
  INFO(step.name << ", heads " << h.query << "/" << h.kv << " x " << h.dim << ", " << chip);
  CHECK(relativeError(out.as<float>(), expected) < 1e-2);
}

} // namespace

TEST_CASE("attention of many tokens: odd head sizes, groups of query heads, ragged lengths", "[cuda]") {
  for (const Heads &h :
       {Heads{6, 2, 42}, Heads{4, 4, 36}, Heads{2, 1, 6}, Heads{8, 2, 64}, Heads{3, 1, 128}}) {
    for (const Step &step : {run("one token", {{0, 0, 1}}), run("short", {{0, 0, 7}}),
                             run("ragged", {{0, 0, 33}}), run("several tiles", {{0, 0, 130}})}) {
      check(h, step, "sm_80");
    }
  }
}

TEST_CASE("attention of many tokens: sequences mixed in a step, with and without a past", "[cuda]") {
  for (const Heads &h : {Heads{6, 2, 42}, Heads{9, 9, 16}}) {
    check(h, run("one token each", {{3, 70, 1}, {0, 5, 1}, {2, 0, 1}, {1, 129, 1}}), "sm_80");
    check(h, run("runs", {{1, 60, 20}, {0, 0, 3}, {2, 100, 40}, {1, 80, 2}}), "sm_80");
    Step shuffled{"positions out of order", {0, 0, 0, 1, 1, 0}, {9, 70, 11, 1, 0, 64}};
    check(h, shuffled, "sm_80");
  }
}

TEST_CASE("attention of many tokens: large heads and large groups", "[cuda]") {
  check({2, 1, 256}, run("two tiles of 32 keys", {{0, 0, 40}}), "sm_80");
  check({1, 1, 288}, run("columns in chunks", {{0, 30, 9}}), "sm_80");
  check({65, 1, 8}, run("more heads than rows", {{0, 0, 5}}), "sm_80");
}

TEST_CASE("attention of many tokens: more tiles than blocks", "[cuda]") {
  Step step{"sequences in turns", {}, {}};
  for (int32_t t = 0; t < 600; ++t) {
    step.sequences.push_back(t % 2);
    step.positions.push_back(t % 7);
  }
  check({1, 1, 8}, step, "sm_80");
}
