#include "tests/compiler/Codegen/KernelHarness.h"

#include <catch2/catch.hpp>

using namespace smelt::codegen;
using namespace smelt::codegen::test;

namespace {

struct Shape {
  int64_t queryHeads, kvHeads, headDim, qkNorm;
  bool bf16 = false; // of the cache
  int64_t q() const { return queryHeads * headDim; }
  int64_t kv() const { return kvHeads * headDim; }
};

constexpr int64_t kSequences = 2, kCapacity = 80;
constexpr float kEps = 1e-6f;

// RMSNorm (when asked for) and rotation of one row of heads, in double.
std::vector<double> rotated(const float *row, int64_t heads, const Shape &s, const Weights &norm,
                            int64_t position) {
  int64_t d = s.headDim;
  std::vector<double> x(row, row + heads * d), y(heads * d);
  for (int64_t h = 0; s.qkNorm && h < heads; ++h) {
    int64_t begin = s.qkNorm == 1 ? h * d : 0, count = s.qkNorm == 1 ? d : heads * d;
    double squares = 0;
    for (int64_t i = 0; i < count; ++i) {
      squares += static_cast<double>(row[begin + i]) * row[begin + i];
    }
    for (int64_t i = 0; i < d; ++i) {
      x[h * d + i] = row[h * d + i] / std::sqrt(squares / count + kEps) * norm[s.qkNorm == 1 ? i : h * d + i];
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < d / 2; ++i) {
      double angle = position * std::pow(10000.0, -2.0 * i / d);
      double a = x[h * d + i], b = x[h * d + d / 2 + i];
      y[h * d + i] = a * std::cos(angle) - b * std::sin(angle);
      y[h * d + d / 2 + i] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  return y;
}

Floats ropeTable(int64_t d) {
  Floats table(kCapacity * d);
  for (int64_t p = 0; p < kCapacity; ++p) {
    for (int64_t i = 0; i < d / 2; ++i) {
      double angle = p * std::pow(10000.0, -2.0 * i / d);
      table[p * d + i] = static_cast<float>(std::cos(angle));
      table[p * d + d / 2 + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

const uint16_t *halves(const Floats &slot) { return reinterpret_cast<const uint16_t *>(slot.data()); }

} // namespace

TEST_CASE("rope_append and attention: two ragged sequences in one step, then one more token") {
  forEveryVariant([](const cpu::IsaLevel &level, WeightType type, int workers) {
    for (Shape s :
         {Shape{4, 2, 8, 0}, Shape{12, 4, 44, 1}, Shape{6, 1, 42, 2}, Shape{2, 2, 6, 1}, Shape{7, 1, 64, 0},
          Shape{12, 4, 44, 1, true}, Shape{2, 1, 6, 0, true}, Shape{3, 1, 36, 2, true}}) {
      std::vector<int32_t> sequence, position;
      for (int32_t p = 0; p < 50; ++p) { // interleaved, of different lengths
        sequence.push_back(1), position.push_back(p);
        if (p < 17) {
          sequence.push_back(0), position.push_back(p);
        }
      }
      int64_t tokens = sequence.size();
      Floats qkv = randomFloats(tokens * (s.q() + 2 * s.kv()), 1, 2.0f), table = ropeTable(s.headDim);
      Weights qNorm(type, s.qkNorm == 1 ? s.headDim : s.q(), 2, 0.3f, 1.0f);
      Weights kNorm(type, s.qkNorm == 1 ? s.headDim : s.kv(), 3, 0.3f, 1.0f);
      Floats keys(kSequences * kCapacity * s.kv(), 0.0f), values(keys), q(tokens * s.q(), NAN), out(q);
      LoadedKernel append({"rope_append_test",
                           "rope_append",
                           {{"query_heads", s.queryHeads},
                            {"kv_heads", s.kvHeads},
                            {"head_dim", s.headDim},
                            {"qk_norm", s.qkNorm},
                            {"dtype", static_cast<int64_t>(type)},
                            {"kv", s.bf16 ? 2 : 0}}},
                          level);
      LoadedKernel attend({"attention_test",
                           "attention",
                           {{"query_heads", s.queryHeads},
                            {"kv_heads", s.kvHeads},
                            {"head_dim", s.headDim},
                            {"kv", s.bf16 ? 2 : 0}}},
                          level);
      auto step = [&](int64_t first, int64_t count) {
        std::vector<void *> bindings = {&qkv[first * (s.q() + 2 * s.kv())], &position[first],
                                        &sequence[first], table.data()};
        if (s.qkNorm) {
          bindings.insert(bindings.end(), {qNorm.data(), kNorm.data()});
        }
        bindings.insert(bindings.end(), {&q[first * s.q()], keys.data(), values.data()});
        int32_t n = count;
        append.run(bindings, {n, kCapacity, bitsOf(kEps)}, workers);
        // No sequence has two chunks of positions, so there are no partials.
        attend.run({&q[first * s.q()], &position[first], &sequence[first], keys.data(), values.data(),
                    &out[first * s.q()], nullptr},
                   {n, kCapacity, kSequences}, workers);
      };
      step(0, tokens - 1); // prefill
      step(tokens - 1, 1); // decode

      std::vector<double> expected;
      std::vector<std::vector<double>> queries, rotatedKeys;
      for (int64_t t = 0; t < tokens; ++t) {
        const float *row = &qkv[t * (s.q() + 2 * s.kv())];
        queries.push_back(rotated(row, s.queryHeads, s, qNorm, position[t]));
        rotatedKeys.push_back(rotated(row + s.q(), s.kvHeads, s, kNorm, position[t]));
        for (double &key : rotatedKeys.back()) {
          key = s.bf16 ? fromBf16(roundToBf16(static_cast<float>(key))) : key;
        }
      }
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t h = 0; h < s.queryHeads; ++h) {
          int64_t kvHead = h / (s.queryHeads / s.kvHeads), d = s.headDim;
          std::vector<double> p(tokens, 0.0), result(d, 0.0);
          double total = 0;
          for (int64_t u = 0; u < tokens; ++u) {
            if (sequence[u] != sequence[t] || position[u] > position[t]) {
              continue;
            }
            double score = 0;
            for (int64_t i = 0; i < d; ++i) {
              score += queries[t][h * d + i] * rotatedKeys[u][kvHead * d + i];
            }
            p[u] = std::exp(score / std::sqrt(static_cast<double>(d)));
            total += p[u];
          }
          for (int64_t u = 0; u < tokens; ++u) {
            for (int64_t i = 0; i < d; ++i) {
              float value = qkv[u * (s.q() + 2 * s.kv()) + s.q() + s.kv() + kvHead * d + i];
              result[i] += p[u] / total * (s.bf16 ? fromBf16(roundToBf16(value)) : value);
            }
          }
          expected.insert(expected.end(), result.begin(), result.end());
        }
      }
      INFO("heads " << s.queryHeads << "/" << s.kvHeads << " of " << s.headDim << " qk_norm " << s.qkNorm);
      // A key that double and f32 round to different neighbours moves a few scores by 2^-9 of themselves.
      CHECK(relativeError(out, expected) < (s.bf16 ? 5e-4 : 5e-6));
      if (!s.bf16) {
        continue;
      }
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t h = 0; h < s.kvHeads; ++h) {
          int64_t d = s.headDim, line = ((sequence[t] * s.kvHeads + h) * kCapacity) * d, p = position[t];
          for (int64_t i = 0; i < d; ++i) {
            uint16_t key = halves(keys)[line + p / 16 * 16 * d + (i / 2 * 16 + p % 16) * 2 + i % 2];
            CHECK(std::abs(fromBf16(key) - rotatedKeys[t][h * d + i]) <=
                  std::abs(rotatedKeys[t][h * d + i]) * 0x1p-7 + 1e-6);
            float value = qkv[t * (s.q() + 2 * s.kv()) + s.q() + s.kv() + h * d + i];
            CHECK(halves(values)[line + p * d + i] == roundToBf16(value));
          }
        }
      }
    }
  });
}
