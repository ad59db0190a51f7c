// Kernels of short steps around attention and the experts.
#include "tests/compiler/Codegen/CUDA/CudaHarness.h"

#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

using namespace smelt::codegen;
using namespace smelt::codegen::test;
using Layout = Weights::Layout;

namespace {

constexpr double TOLERANCE = 1e-5, BF16_TOLERANCE = 4e-3;
constexpr float EPS = 1e-5f, QK_EPS = 1e-6f, SCALE = 0.5f;

double silu(double x) { return x / (1 + std::exp(-x)); }

struct HeadShape {
  int64_t in, query, kv, dim;
};

Floats ropeTable(int64_t positions, int64_t dim) {
  Floats table(positions * dim);
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < dim / 2; ++i) {
      double angle = p * std::pow(10000.0, -2.0 * i / dim);
      table[p * dim + i] = static_cast<float>(std::cos(angle));
      table[p * dim + dim / 2 + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

// A cache slot bf16[S][kv][C][stride] on the host.
struct Cache {
  Cache(int64_t sequences, int64_t kv, int64_t capacity, int64_t dim)
      : kv(kv), capacity(capacity), stride(cuda::rowStride(dim)),
        bits(sequences * kv * capacity * stride, 0) {}
  size_t row(int64_t sequence, int64_t head, int64_t position) const {
    return ((sequence * kv + head) * capacity + position) * stride;
  }
  int64_t kv, capacity, stride;
  std::vector<uint16_t> bits;
};

} // namespace

TEST_CASE("norm_qkv_rope projects, norms, rotates and appends") {
  for (HeadShape s : {HeadShape{24, 2, 1, 6}, HeadShape{84, 4, 2, 36}, HeadShape{1848, 2, 1, 42},
                      HeadShape{50, 3, 3, 64}, HeadShape{2304, 2, 1, 8}}) {
    for (int qkNorm : {0, 1, 2}) { // none, per head, full width
      for (int bias : {0, 1}) {
        CAPTURE(s.in, s.query, s.kv, s.dim, qkNorm, bias);
        int64_t q = s.query * s.dim, k = s.kv * s.dim, capacity = 32, sequences = 3;
        float scale = 1 / std::sqrt(static_cast<float>(s.in));
        DeviceKernel kernel(brief("norm_qkv_rope", {{"in", s.in},
                                                    {"query_heads", s.query},
                                                    {"kv_heads", s.kv},
                                                    {"head_dim", s.dim},
                                                    {"qk_norm", qkNorm},
                                                    {"bias", bias},
                                                    {"dtype", 1},
                                                    {"kv", 1}}));
        Weights norm(Layout::vector, 1, s.in, 1, 0.1f, 1.0f);
        std::vector<Weights> w, b, n;
        const int64_t rows[] = {q, k, k};
        for (int i = 0; i < 3; ++i) {
          w.emplace_back(Layout::rows, rows[i], s.in, 2 + i, scale);
          b.emplace_back(Layout::vector, 1, rows[i], 5 + i, 0.3f);
        }
        for (int i = 0; i < 2; ++i) {
          n.emplace_back(Layout::vector, 1, qkNorm == 2 ? rows[i] : s.dim, 8 + i, 0.1f, 1.0f);
        }
        Floats table = ropeTable(capacity, s.dim);
        auto deviceTable = uploadFloats(table);
        for (int32_t tokens : {1, 3, 8}) {
          CAPTURE(tokens);
          Floats x = randomFloats(tokens * s.in, 10, 2.0f);
          std::vector<int32_t> positions(tokens), ids(tokens);
          for (int32_t t = 0; t < tokens; ++t) {
            positions[t] = (t * 11 + 5) % 32;
            ids[t] = t % 3;
          }
          std::vector<double> xn = normalised(x, tokens, s.in, norm, EPS), expectedQ;
          Cache keys(sequences, s.kv, capacity, s.dim), values = keys;
          std::vector<double> expectedK(keys.bits.size(), 0), expectedV(keys.bits.size(), 0);
          for (int32_t t = 0; t < tokens; ++t) {
            std::vector<std::vector<double>> heads; // raw
            double squares[3] = {};                 // of all of q, k, v
            auto whichOf = [&](int64_t head) { return head < s.query ? 0 : head < s.query + s.kv ? 1 : 2; };
            auto withinOf = [&](int64_t head) {
              return head - (head < s.query ? 0 : head < s.query + s.kv ? s.query : s.query + s.kv);
            };
            for (int64_t head = 0; head < s.query + 2 * s.kv; ++head) {
              int which = whichOf(head);
              std::vector<double> &y = heads.emplace_back(s.dim);
              for (int64_t i = 0; i < s.dim; ++i) {
                int64_t row = withinOf(head) * s.dim + i;
                y[i] = bias ? b[which][row] : 0;
                for (int64_t c = 0; c < s.in; ++c) {
                  y[i] += w[which](row, c) * xn[t * s.in + c];
                }
                squares[which] += y[i] * y[i];
              }
            }
            for (int64_t head = 0; head < s.query + 2 * s.kv; ++head) {
              int which = whichOf(head);
              int64_t within = withinOf(head);
              std::vector<double> y = heads[head], rotated;
              double mean = qkNorm == 2 ? squares[which] / rows[which]
                                        : std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / s.dim;
              for (int64_t i = 0; qkNorm && which < 2 && i < s.dim; ++i) {
                y[i] *= n[which][qkNorm == 2 ? within * s.dim + i : i] / std::sqrt(mean + QK_EPS);
              }
              rotated = y;
              for (int64_t i = 0; which < 2 && i < s.dim / 2; ++i) {
                double c = table[positions[t] * s.dim + i], sn = table[positions[t] * s.dim + s.dim / 2 + i];
                rotated[i] = y[i] * c - y[i + s.dim / 2] * sn;
                rotated[i + s.dim / 2] = y[i + s.dim / 2] * c + y[i] * sn;
              }
              if (which == 0) {
                expectedQ.insert(expectedQ.end(), rotated.begin(), rotated.end());
              } else {
                auto &cache = which == 1 ? expectedK : expectedV;
                std::copy(rotated.begin(), rotated.end(),
                          cache.begin() + keys.row(ids[t], within, positions[t]));
              }
            }
          }
          auto deviceX = uploadFloats(x), qOut = blank(4 * tokens * q);
          auto devicePositions = uploadInts(positions), deviceIds = uploadInts(ids);
          auto kSlot = smelt::tests::TestDevice::get().upload(keys.bits);
          auto vSlot = smelt::tests::TestDevice::get().upload(values.bits);
          std::vector<uint64_t> bindings = {deviceX.address(), norm.address()};
          for (auto *list : {&w, bias ? &b : nullptr, qkNorm ? &n : nullptr}) {
            for (size_t i = 0; list && i < list->size(); ++i) {
              bindings.push_back((*list)[i].address());
            }
          }
          for (const auto *buffer : {&devicePositions, &deviceIds, &deviceTable, &qOut, &kSlot, &vSlot}) {
            bindings.push_back(buffer->address());
          }
          kernel.run(bindings, {tokens, static_cast<int32_t>(capacity), bitsOf(EPS), bitsOf(QK_EPS)},
                     {.tokens = tokens, .positions = capacity});
          CHECK(relativeError(qOut.read<float>(), expectedQ) < TOLERANCE);
          auto asFloats = [](const std::vector<uint16_t> &bits) {
            Floats values;
            for (uint16_t value : bits) {
              values.push_back(bf16ToFloat(value));
            }
            return values;
          };
          CHECK(relativeError(asFloats(kSlot.read<uint16_t>()), expectedK) < BF16_TOLERANCE);
          CHECK(relativeError(asFloats(vSlot.read<uint16_t>()), expectedV) < BF16_TOLERANCE);
        }
      }
    }
  }
}

TEST_CASE("attention of short steps over a split cache") {
  struct Case {
    int64_t query, kv, dim, capacity;
    std::vector<int32_t> positions;
  };
  for (const Case &s :
       {Case{2, 1, 6, 16, {0, 3, 15}}, Case{36, 9, 42, 64, {40}}, Case{4, 1, 42, 512, {500, 63, 64}},
        Case{6, 2, 36, 256, {255, 0, 1, 2, 100, 7, 130, 200}}, Case{7, 1, 64, 128, {127, 90}},
        Case{2, 2, 128, 256, {200, 130}}, Case{1, 1, 300, 64, {63}}, Case{8, 1, 256, 128, {128 - 1}}}) {
    CAPTURE(s.query, s.kv, s.dim, s.capacity);
    int64_t sequences = 2, width = s.query * s.dim;
    auto tokens = static_cast<int32_t>(s.positions.size());
    DeviceKernel kernel(
        brief("attention", {{"query_heads", s.query}, {"kv_heads", s.kv}, {"head_dim", s.dim}, {"kv", 1}}));
    Cache keys(sequences, s.kv, s.capacity, s.dim), values = keys;
    Floats random = randomFloats(2 * keys.bits.size(), 20);
    // Beyond the longest position the cache holds what must not be read: NaN.
    std::vector<int32_t> ids(tokens);
    std::vector<int32_t> longest(sequences, -1);
    for (int32_t t = 0; t < tokens; ++t) {
      ids[t] = t % 2;
      longest[ids[t]] = std::max(longest[ids[t]], s.positions[t]);
    }
    for (int64_t n = 0; n < sequences; ++n) {
      for (int64_t h = 0; h < s.kv; ++h) {
        for (int64_t p = 0; p < s.capacity; ++p) {
          for (int64_t i = 0; i < s.dim; ++i) {
            size_t at = keys.row(n, h, p) + i;
            keys.bits[at] = p <= longest[n] ? roundToBf16(random[2 * at]) : 0x7fff;
            values.bits[at] = p <= longest[n] ? roundToBf16(random[2 * at + 1]) : 0x7fff;
          }
        }
      }
    }
    Floats q = randomFloats(tokens * width, 21, 2.0f);
    std::vector<double> expected(tokens * width, 0);
    for (int32_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < s.query; ++h) {
        int64_t kvHead = h / (s.query / s.kv);
        std::vector<double> scores(s.positions[t] + 1);
        for (int32_t p = 0; p <= s.positions[t]; ++p) {
          for (int64_t i = 0; i < s.dim; ++i) {
            scores[p] +=
                q[t * width + h * s.dim + i] * bf16ToFloat(keys.bits[keys.row(ids[t], kvHead, p) + i]);
          }
          scores[p] /= std::sqrt(static_cast<double>(s.dim));
        }
        double most = *std::max_element(scores.begin(), scores.end()), sum = 0;
        for (double &score : scores) {
          sum += score = std::exp(score - most);
        }
        for (int32_t p = 0; p <= s.positions[t]; ++p) {
          for (int64_t i = 0; i < s.dim; ++i) {
            expected[t * width + h * s.dim + i] +=
                scores[p] / sum * bf16ToFloat(values.bits[values.row(ids[t], kvHead, p) + i]);
          }
        }
      }
    }
    auto deviceQ = uploadFloats(q), out = blank(4 * tokens * width);
    auto positions = uploadInts(s.positions), deviceIds = uploadInts(ids);
    auto kSlot = smelt::tests::TestDevice::get().upload(keys.bits);
    auto vSlot = smelt::tests::TestDevice::get().upload(values.bits);
    kernel.run({deviceQ.address(), positions.address(), deviceIds.address(), kSlot.address(), vSlot.address(),
                out.address()},
               {tokens, static_cast<int32_t>(s.capacity)}, {.tokens = tokens, .positions = s.capacity});
    CHECK(relativeError(out.read<float>(), expected) < TOLERANCE);
  }
}

TEST_CASE("norm_route chooses by logit, ties to the lower index") {
  struct Case {
    int64_t in, experts, topK;
    int sigmoid, renormalize;
    bool ties;
    int64_t shared = 0; // width of shared experts
  };
  for (const Case &s :
       {Case{24, 12, 3, 0, 0, false}, Case{24, 5, 5, 1, 1, true}, Case{1848, 504, 8, 0, 1, false},
        Case{42, 504, 8, 0, 0, true}, Case{20, 1, 1, 0, 1, false}, Case{30, 64, 40, 1, 0, true},
        Case{16, 3000, 6, 0, 1, true}, Case{24, 12, 3, 0, 0, false, 20}, Case{520, 9, 2, 1, 1, true, 700},
        Case{2304, 5, 2, 0, 1, false, 33}}) {
    CAPTURE(s.in, s.experts, s.topK, s.sigmoid, s.renormalize, s.ties, s.shared);
    Weights norm(Layout::vector, 1, s.in, 30, 0.1f, 1.0f);
    // Ties: few distinct weights, so that many experts have exactly equal rows.
    Weights w(Layout::rows, s.experts, s.in, 31, s.ties ? 0.0f : 0.1f, s.ties ? 0.25f : 0.0f);
    Params params = {{"in", s.in},          {"experts", s.experts},         {"top_k", s.topK},
                     {"router", s.sigmoid}, {"renormalize", s.renormalize}, {"dtype", 1}};
    if (s.shared) {
      params["shared"] = s.shared;
    }
    DeviceKernel kernel(brief("norm_route", params));
    Weights gate(Layout::rows, std::max<int64_t>(s.shared, 1), s.in, 33, 0.1f);
    Weights up(Layout::rows, std::max<int64_t>(s.shared, 1), s.in, 34, 0.1f);
    for (int32_t tokens : {1, 2, 8}) {
      CAPTURE(tokens);
      Floats x = randomFloats(tokens * s.in, 32, 2.0f);
      std::vector<double> xn = normalised(x, tokens, s.in, norm, EPS), expectedWeights;
      std::vector<int32_t> expectedIndices;
      for (int32_t t = 0; t < tokens; ++t) {
        std::vector<double> logits(s.experts);
        for (int64_t expert = 0; expert < s.experts; ++expert) {
          for (int64_t i = 0; i < s.in; ++i) {
            logits[expert] += w(expert, i) * xn[t * s.in + i];
          }
        }
        std::vector<int32_t> order(s.experts);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
        std::vector<double> weights(s.experts);
        double all = 0, chosen = 0;
        for (int64_t expert = 0; expert < s.experts; ++expert) {
          weights[expert] =
              s.sigmoid ? 1 / (1 + std::exp(-logits[expert])) : std::exp(logits[expert] - logits[order[0]]);
          all += weights[expert];
        }
        for (int64_t j = 0; j < s.topK; ++j) {
          chosen += weights[order[j]];
        }
        for (int64_t j = 0; j < s.topK; ++j) {
          expectedIndices.push_back(order[j]);
          expectedWeights.push_back(weights[order[j]] / (s.renormalize ? chosen : s.sigmoid ? 1 : all));
        }
      }
      auto deviceX = uploadFloats(x), xNorm = blank(4 * tokens * s.in), weights = blank(4 * tokens * s.topK);
      auto indices = blank(4 * tokens * s.topK);
      auto h = blank(4 * tokens * std::max<int64_t>(s.shared, 1));
      std::vector<uint64_t> bindings = {deviceX.address(), norm.address(), w.address()};
      if (s.shared) {
        bindings.insert(bindings.end(), {gate.address(), up.address()});
      }
      bindings.insert(bindings.end(), {xNorm.address(), indices.address(), weights.address()});
      if (s.shared) {
        bindings.push_back(h.address());
      }
      kernel.run(bindings, {tokens, bitsOf(EPS)}, {.tokens = tokens});
      std::vector<double> expectedH;
      for (int64_t row = 0; row < tokens * s.shared; ++row) {
        double g = 0, u = 0;
        for (int64_t c = 0; c < s.in; ++c) {
          g += gate(row % s.shared, c) * xn[row / s.shared * s.in + c];
          u += up(row % s.shared, c) * xn[row / s.shared * s.in + c];
        }
        expectedH.push_back(silu(g) * u);
      }
      if (s.shared) {
        CHECK(relativeError(h.read<float>(), expectedH) < TOLERANCE);
      }
      CHECK(indices.read<int32_t>() == expectedIndices);
      CHECK(relativeError(weights.read<float>(), expectedWeights) < TOLERANCE);
      CHECK(relativeError(xNorm.read<float>(), xn) < TOLERANCE);
    }
  }
}

TEST_CASE("the experts of short steps") {
  struct Case {
    int64_t hidden, features, experts, topK;
    std::vector<int32_t> tokens;
    int64_t shared = 0; // width of shared experts
  };
  for (const Case &s :
       {Case{24, 20, 4, 2, {1, 8}}, Case{72, 130, 12, 3, {1, 5}}, Case{40, 616, 9, 8, {1, 3}},
        Case{1848, 24, 9, 8, {1, 2}}, Case{50, 33, 20, 17, {2}}, Case{64, 64, 3, 1, {4}},
        Case{17, 7, 6, 5, {3}}, Case{2600, 16, 3, 2, {1}}, Case{16, 2600, 3, 2, {1}},
        Case{72, 20, 4, 2, {1, 8}, 50}, Case{2600, 8, 3, 2, {3}, 700}, Case{24, 130, 4, 3, {5}, 2304}}) {
    CAPTURE(s.hidden, s.features, s.experts, s.topK, s.shared);
    float scale = 1 / std::sqrt(static_cast<float>(s.hidden));
    Weights gate(Layout::tiles, s.features, s.hidden, 40, scale, 0, s.experts);
    Weights up(Layout::tiles, s.features, s.hidden, 41, scale, 0, s.experts);
    Weights down(Layout::tiles, s.hidden, s.features, 42, 1 / std::sqrt(static_cast<float>(s.features)), 0,
                 s.experts);
    Params params = {{"hidden", s.hidden},
                     {"expert_hidden", s.features},
                     {"experts", s.experts},
                     {"top_k", s.topK},
                     {"dtype", 1}};
    DeviceKernel second(brief("experts_down_residual", params));
    if (s.shared) {
      params["shared"] = s.shared;
    }
    DeviceKernel first(brief("experts_gate_up_direct", params));
    Weights sharedDown(Layout::rows, s.hidden, std::max<int64_t>(s.shared, 1), 46, 0.05f);
    for (int32_t tokens : s.tokens) {
      CAPTURE(tokens);
      Floats xn = randomFloats(tokens * s.hidden, 43), x = randomFloats(tokens * s.hidden, 44);
      Floats weights = randomFloats(tokens * s.topK, 45);
      std::vector<int32_t> indices;
      for (int32_t t = 0; t < tokens; ++t) {
        for (int64_t j = 0; j < s.topK; ++j) {
          indices.push_back(static_cast<int32_t>((j * 5 + t * 3) % s.experts));
        }
      }
      std::vector<double> expectedH, expectedX(x.begin(), x.end());
      for (size_t slot = 0; slot < indices.size(); ++slot) {
        const float *row = xn.data() + slot / s.topK * s.hidden;
        for (int64_t f = 0; f < s.features; ++f) {
          double g = 0, u = 0;
          for (int64_t c = 0; c < s.hidden; ++c) {
            g += gate.at(indices[slot], f, c) * static_cast<double>(row[c]);
            u += up.at(indices[slot], f, c) * static_cast<double>(row[c]);
          }
          expectedH.push_back(silu(g) * u);
        }
      }
      auto deviceXn = uploadFloats(xn), h = blank(4 * indices.size() * s.features), deviceX = uploadFloats(x);
      auto deviceIndices = uploadInts(indices), deviceWeights = uploadFloats(weights),
           out = blank(4 * x.size());
      std::vector<uint64_t> bindings = {deviceXn.address(), deviceIndices.address(), gate.address(),
                                        up.address(), h.address()};
      std::vector<int32_t> constants = {tokens};
      Floats hShared = randomFloats(tokens * std::max<int64_t>(s.shared, 1), 47);
      auto deviceShared = uploadFloats(hShared), sum = blank(4 * x.size());
      if (s.shared) {
        bindings.insert(bindings.end(),
                        {deviceShared.address(), sharedDown.address(), deviceX.address(), sum.address()});
        constants.push_back(bitsOf(SCALE));
      }
      first.run(bindings, constants, {.tokens = tokens});
      if (s.shared) { // what the experts then add to
        for (int64_t i = 0; i < tokens * s.hidden; ++i) {
          double product = 0;
          for (int64_t c = 0; c < s.shared; ++c) {
            product +=
                sharedDown(i % s.hidden, c) * static_cast<double>(hShared[i / s.hidden * s.shared + c]);
          }
          expectedX[i] += SCALE * product;
        }
        Floats written = sum.read<float>();
        CHECK(relativeError(written, expectedX) < TOLERANCE);
        deviceX.write(written);
      }
      Floats hidden = h.read<float>();
      CHECK(relativeError(hidden, expectedH) < TOLERANCE);
      for (size_t slot = 0; slot < indices.size(); ++slot) {
        for (int64_t n = 0; n < s.hidden; ++n) {
          double sum = 0;
          for (int64_t f = 0; f < s.features; ++f) {
            sum += down.at(indices[slot], n, f) * static_cast<double>(hidden[slot * s.features + f]);
          }
          expectedX[slot / s.topK * s.hidden + n] += SCALE * weights[slot] * sum;
        }
      }
      for (bool inPlace : {false, true}) {
        auto &target = inPlace ? deviceX : out;
        second.run({h.address(), deviceIndices.address(), deviceWeights.address(), down.address(),
                    deviceX.address(), target.address()},
                   {tokens, bitsOf(SCALE)}, {.tokens = tokens});
        CHECK(relativeError(target.read<float>(), expectedX) < TOLERANCE);
      }
    }
  }
}
