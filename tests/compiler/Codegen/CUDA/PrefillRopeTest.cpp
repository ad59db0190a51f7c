#include "tests/compiler/Codegen/CUDA/PrefillHarness.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace smelt::codegen;
using namespace smelt::codegen::cuda;
using namespace smelt::codegen::cuda::test;

namespace {

constexpr float EPS = 1e-5f;
const std::string CHIP = "sm_80";

struct Heads {
  int64_t query, kv, dim;
};

void check(const Heads &h, int64_t qk_norm, int64_t tokens) {
  int64_t q = h.query * h.dim, k = h.kv * h.dim, width = q + 2 * k, half = h.dim / 2,
          padded = roundUp(h.dim, 8);
  int64_t capacity = roundUp(tokens + 3, 16), sequences = 3;
  KernelDesc kernel{"rope_append_" + std::to_string(h.query) + "_" + std::to_string(h.kv) + "_" +
                        std::to_string(h.dim),
                    "rope_append",
                    {{"query_heads", h.query},
                     {"kv_heads", h.kv},
                     {"head_dim", h.dim},
                     {"qk_norm", qk_norm},
                     {"dtype", qk_norm ? 1 : 0},
                     {"kv", 1}}};
  Floats qkv = randomFloats(tokens * width, 1), table(capacity * h.dim);
  for (int64_t position = 0; position < capacity; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      double angle = position * std::pow(10000.0, -2.0 * i / h.dim);
      table[position * h.dim + i] = static_cast<float>(std::cos(angle));
      table[position * h.dim + half + i] = static_cast<float>(std::sin(angle));
    }
  }
  Ints positions, ids;
  for (int64_t t = 0; t < tokens; ++t) {
    positions.push_back(static_cast<int32_t>(t / sequences + 2));
    ids.push_back(static_cast<int32_t>(t % sequences));
  }
  Floats queryNorm = randomWeights(qk_norm == 2 ? q : h.dim, 2, 0.2f, 1.0f);
  Floats keyNorm = randomWeights(qk_norm == 2 ? k : h.dim, 3, 0.2f, 1.0f);
  Doubles expectedQ;
  // Places of the cache that nobody writes keep what they held.
  Floats expectedK(sequences * h.kv * capacity * padded, 7.0f), expectedV = expectedK;
  for (int64_t t = 0; t < tokens; ++t) {
    const float *row = &qkv[t * width];
    auto projection = [&](int64_t first, int64_t heads, const Floats &weight) {
      Doubles x(row + first, row + first + heads * h.dim);
      if (qk_norm == 2) {
        return normalise(row + first, weight, EPS);
      }
      for (int64_t head = 0; qk_norm == 1 && head < heads; ++head) {
        Doubles y = normalise(row + first + head * h.dim, weight, EPS);
        std::copy(y.begin(), y.end(), x.begin() + head * h.dim);
      }
      return x;
    };
    auto rotate = [&](Doubles x) {
      Doubles y = x;
      for (size_t i = 0; i < x.size(); ++i) {
        int64_t head = i / h.dim * h.dim, column = i % h.dim, pair = column % half;
        double cosine = table[positions[t] * h.dim + pair], sine = table[positions[t] * h.dim + half + pair];
        double a = x[head + pair], b = x[head + pair + half];
        y[i] = column < half ? a * cosine - b * sine : b * cosine + a * sine;
      }
      return y;
    };
    Doubles rotated = rotate(projection(0, h.query, queryNorm)), key = rotate(projection(q, h.kv, keyNorm));
    expectedQ.insert(expectedQ.end(), rotated.begin(), rotated.end());
    for (int64_t i = 0; i < k; ++i) {
      int64_t line = (ids[t] * h.kv + i / h.dim) * capacity + positions[t];
      expectedK[line * padded + i % h.dim] = static_cast<float>(key[i]);
      expectedV[line * padded + i % h.dim] = roundBf16(row[q + k + i]);
    }
  }
  Buffer input(qkv), position(positions), sequence(ids), rope(table), qn(packVector(queryNorm)),
      kn(packVector(keyNorm)), out(Floats(tokens * q, NAN)), keys(packVector(Floats(expectedK.size(), 7.0f))),
      values(keys);
  std::vector<Buffer *> bindings = {&input, &position, &sequence, &rope};
  if (qk_norm) {
    bindings.insert(bindings.end(), {&qn, &kn});
  }
  bindings.insert(bindings.end(), {&out, &keys, &values});
  runKernel(kernel, CHIP, bindings,
            {static_cast<int32_t>(tokens), static_cast<int32_t>(capacity), bitsOf(EPS)},
            {.tokens = tokens, .capacity = capacity});
  INFO(kernel.name << ", qk_norm " << qk_norm << ", " << tokens << " tokens");
  CHECK(relativeError(out.as<float>(), expectedQ) < 1e-6);
  CHECK(values.as<uint16_t>() == packVector(expectedV));
  Floats foundK;
  for (uint16_t bits : keys.as<uint16_t>()) {
    foundK.push_back(bf16Value(bits));
  }
  CHECK(relativeError(foundK, Doubles(expectedK.begin(), expectedK.end())) < 3e-3);
}

} // namespace

TEST_CASE("rope_append of many tokens: qk-norm, odd heads, padded bf16 cache", "[cuda]") {
  for (int64_t qk_norm : {0, 1, 2}) {
    check({6, 2, 6}, qk_norm, 7);
    check({3, 1, 42}, qk_norm, 33);
    check({2, 2, 36}, qk_norm, 1);
    check({12, 3, 128}, qk_norm, 5);
    check({9, 9, 64}, qk_norm, 9);
  }
}
