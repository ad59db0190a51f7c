// The attention kernel on caches filled by hand: against double precision, and against itself.
#include "tests/compiler/Codegen/KernelHarness.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace smelt::codegen;
using namespace smelt::codegen::test;

namespace {

struct Shape {
  int64_t queryHeads, kvHeads, headDim;
  bool bf16 = false; // of the cache
  int64_t q() const { return queryHeads * headDim; }
};

constexpr int64_t kSequences = 2, kCapacity = 1280;

struct Token {
  int32_t sequence, position;
};

// Keys and values of every position, and the slots a kernel reads them from.
class Cache {
public:
  explicit Cache(const Shape &s)
      : s(s), k(randomFloats(size(), 11)), v(randomFloats(size(), 12)), keySlot(size()), valueSlot(size()) {
    for (size_t i = 0; s.bf16 && i < size(); ++i) {
      k[i] = fromBf16(roundToBf16(k[i])), v[i] = fromBf16(roundToBf16(v[i]));
    }
    showFirst(0, kCapacity), showFirst(1, kCapacity);
  }

  // Puts the first `count` positions of a sequence into the slots, and NaN behind them.
  void showFirst(int64_t sequence, int64_t count) {
    for (int64_t head = 0; head < s.kvHeads; ++head) {
      for (int64_t p = 0; p < kCapacity; ++p) {
        for (int64_t i = 0; i < s.headDim; ++i) {
          setKey(sequence, head, p, i, p < count ? k[at(sequence, head, p) + i] : NAN);
          setValue(sequence, head, p, i, p < count ? v[at(sequence, head, p) + i] : NAN);
        }
      }
    }
  }

  void setKey(int64_t sequence, int64_t head, int64_t p, int64_t i, float x) {
    int64_t panel = at(sequence, head, p / 16 * 16), pair = s.bf16 ? 2 : 1;
    put(keySlot, panel + (i / pair * 16 + p % 16) * pair + i % pair, x);
  }
  void setValue(int64_t sequence, int64_t head, int64_t p, int64_t i, float x) {
    put(valueSlot, at(sequence, head, p) + i, x);
  }
  const float *key(int64_t sequence, int64_t head, int64_t p) const { return &k[at(sequence, head, p)]; }
  const float *value(int64_t sequence, int64_t head, int64_t p) const { return &v[at(sequence, head, p)]; }
  float *keys() { return keySlot.data(); }
  float *values() { return valueSlot.data(); }

private:
  size_t size() const { return kSequences * s.kvHeads * kCapacity * s.headDim; }
  size_t at(int64_t sequence, int64_t head, int64_t p) const {
    return ((sequence * s.kvHeads + head) * kCapacity + p) * s.headDim;
  }
  void put(Floats &slot, size_t index, float x) {
    if (s.bf16) {
      uint16_t half = roundToBf16(x);
      std::memcpy(reinterpret_cast<char *>(slot.data()) + 2 * index, &half, 2);
    } else {
      slot[index] = x;
    }
  }
  const Shape &s;
  Floats k, v, keySlot, valueSlot;
};

// As many as docs/program.md says.
size_t partialFloats(const Shape &s) {
  int64_t slot = 4 * ((s.headDim + 15) / 16 * 16 + 16), perPosition = (2 * s.queryHeads * slot + 511) / 512;
  return (8 + kSequences) * kCapacity * perPosition / 4;
}

// One step's attention, of `count` tokens from `first` on.
class Attention {
public:
  Attention(const Shape &s, const cpu::IsaLevel &level, const std::vector<Token> &tokens, Cache &cache)
      : s(s), kernel({"attention_test",
                      "attention",
                      {{"query_heads", s.queryHeads},
                       {"kv_heads", s.kvHeads},
                       {"head_dim", s.headDim},
                       {"kv", s.bf16 ? 2 : 0}}},
                     level),
        cache(cache), partials(partialFloats(s), NAN) {
    for (const Token &token : tokens) {
      positions.push_back(token.position), sequences.push_back(token.sequence);
    }
  }

  void step(Floats &queries, Floats &out, size_t first, size_t count, int workers) {
    kernel.run({&queries[first * s.q()], &positions[first], &sequences[first], cache.keys(), cache.values(),
                &out[first * s.q()], partials.data()},
               {static_cast<int32_t>(count), kCapacity, kSequences}, workers);
  }

private:
  const Shape &s;
  LoadedKernel kernel;
  Cache &cache;
  std::vector<int32_t> positions, sequences;
  Floats partials;
};

std::vector<double> exactly(const Shape &s, const Cache &cache, const Token &token, const float *queries) {
  int64_t d = s.headDim;
  std::vector<double> result(s.q(), 0.0), p(token.position + 1);
  for (int64_t h = 0; h < s.queryHeads; ++h) {
    int64_t kvHead = h / (s.queryHeads / s.kvHeads);
    double total = 0;
    for (int64_t u = 0; u <= token.position; ++u) {
      const float *key = cache.key(token.sequence, kvHead, u);
      double score = 0;
      for (int64_t i = 0; i < d; ++i) {
        score += static_cast<double>(queries[h * d + i]) * key[i];
      }
      p[u] = std::exp(score / std::sqrt(static_cast<double>(d)));
      total += p[u];
    }
    for (int64_t u = 0; u <= token.position; ++u) {
      const float *value = cache.value(token.sequence, kvHead, u);
      for (int64_t i = 0; i < d; ++i) {
        result[h * d + i] += p[u] / total * value[i];
      }
    }
  }
  return result;
}

// Runs of positions around the edges of panels, softmax steps and chunks; the two sequences take turns.
std::vector<Token> tokensAtEdges() {
  std::vector<Token> tokens;
  auto run = [&](int32_t sequence, int32_t first, int32_t count) {
    for (int32_t p = first; p < first + count; ++p) {
      tokens.push_back({sequence, p});
    }
  };
  run(1, 0, 34);
  run(0, 62, 5);
  run(1, 62, 3);
  for (int32_t i = 0; i < 6; ++i) {
    run(i % 2, 509 + i / 2, 1);
  }
  run(1, 500, 30);
  run(0, 1020, 7);
  run(1, 1150, 1);
  run(0, 1279, 1);
  return tokens;
}

// Levels whose attention differs: it multiplies no bf16.
std::vector<const cpu::IsaLevel *> levels() {
  std::vector<const cpu::IsaLevel *> all = runnableLevels();
  all.erase(
      std::remove_if(all.begin(), all.end(), [](const cpu::IsaLevel *level) { return level->bf16_dot; }),
      all.end());
  if (all.empty()) {
    WARN("skipped: this machine has no AVX2");
  }
  return all;
}

bool sameBits(const float *a, const float *b, size_t count) { return std::memcmp(a, b, 4 * count) == 0; }

} // namespace

TEST_CASE("attention: groups and head sizes at the edges of its blocks, in double and to the bit") {
  std::vector<Token> tokens = tokensAtEdges();
  for (Shape s :
       {Shape{1, 1, 64}, Shape{2, 1, 36}, Shape{12, 4, 36}, Shape{8, 1, 128}, Shape{7, 1, 64},
        Shape{6, 2, 42}, Shape{5, 1, 6}, Shape{16, 1, 64}, Shape{4, 4, 8}, Shape{13, 1, 40}, Shape{24, 2, 18},
        Shape{12, 4, 36, true}, Shape{7, 1, 64, true}, Shape{6, 2, 42, true}, Shape{5, 1, 6, true}}) {
    Cache cache(s);
    Floats queries = randomFloats(tokens.size() * s.q(), 7, 1.5f);
    std::vector<double> expected;
    for (size_t t = 0; t < tokens.size(); ++t) {
      std::vector<double> row = exactly(s, cache, tokens[t], &queries[t * s.q()]);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    for (const cpu::IsaLevel *level : levels()) {
      INFO(level->name << ", heads " << s.queryHeads << "/" << s.kvHeads << " of " << s.headDim
                       << (s.bf16 ? " in bf16" : ""));
      Attention attention(s, *level, tokens, cache);
      Floats whole(tokens.size() * s.q(), NAN);
      attention.step(queries, whole, 0, tokens.size(), 1);
      CHECK(relativeError(whole, expected) < 2e-6);
      for (int workers : {2, 3}) {
        Floats again(whole.size(), NAN);
        attention.step(queries, again, 0, tokens.size(), workers);
        CHECK(sameBits(again.data(), whole.data(), whole.size()));
      }
      for (size_t length : {1, 2, 7, 30}) {
        Floats parts(whole.size(), NAN);
        for (size_t first = 0; first < tokens.size(); first += length) {
          attention.step(queries, parts, first, std::min(length, tokens.size() - first), 1 + first % 2);
        }
        INFO("in steps of " << length);
        CHECK(sameBits(parts.data(), whole.data(), whole.size()));
      }
    }
  }
}

TEST_CASE("attention: what lies behind a token's position never shows, not even a NaN") {
  for (Shape s : {Shape{6, 2, 36}, Shape{1, 1, 64}, Shape{2, 1, 36, true}}) {
    std::vector<Token> tokens;
    for (int32_t p = 495; p < 530; ++p) {
      tokens.push_back({0, p});
    }
    for (const cpu::IsaLevel *level : levels()) {
      Cache cache(s);
      Attention attention(s, *level, tokens, cache);
      Floats queries = randomFloats(tokens.size() * s.q(), 8), clean(queries.size(), NAN), dirty(clean);
      attention.step(queries, clean, 0, tokens.size(), 2);
      for (int32_t seen : {496, 509, 513, 520}) {
        cache.showFirst(0, seen);
        attention.step(queries, dirty, 0, tokens.size(), 2);
        INFO(level->name << ", " << seen << " positions without NaN");
        CHECK(sameBits(dirty.data(), clean.data(), (seen - 495) * s.q()));
        CHECK(std::isnan(dirty.back()));
      }
    }
  }
}

TEST_CASE("attention: probabilities are within 3 ulp of exp, down to where they vanish") {
  // Sixteen positions with scores 0 and -x, and unit vectors for values: a result is a probability.
  Shape s{1, 1, 16};
  for (const cpu::IsaLevel *level : levels()) {
    Cache cache(s);
    std::vector<Token> tokens = {{0, 15}};
    Attention attention(s, *level, tokens, cache);
    double worst = 0;
    for (int round = 0; round < 400; ++round) {
      Floats queries(16, 0.0f), out(16, NAN);
      queries[0] = 4.0f; // the root of head_dim
      Floats scores(16);
      for (int64_t p = 0; p < 16; ++p) {
        scores[p] = p == 0 ? 0.0f : -static_cast<float>(round * 15 + p) / 72.0f;
        for (int64_t i = 0; i < 16; ++i) {
          cache.setKey(0, 0, p, i, i == 0 ? scores[p] : 0.0f);
          cache.setValue(0, 0, p, i, i == p ? 1.0f : 0.0f);
        }
      }
      attention.step(queries, out, 0, 1, 1);
      for (int64_t p = 1; p < 16; ++p) {
        // As the kernel has it: the query is scaled once and multiplied with the key.
        float scaled = static_cast<float>(1.44269504088896341 / 4) * 4.0f;
        double exact = std::exp2(static_cast<double>(scaled * scores[p]));
        if (exact > 0x1p-125) {
          double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
          worst = std::max(worst, std::abs(out[p] / static_cast<double>(out[0]) - exact) / ulp);
        } else {
          CHECK(out[p] <= 0x1p-124f);
        }
      }
    }
    INFO(level->name);
    CHECK(worst < 3);
    CHECK(worst > 0);
  }
}
