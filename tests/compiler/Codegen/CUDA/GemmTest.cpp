#include "tests/compiler/Codegen/CUDA/PrefillHarness.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <numeric>

using namespace smelt::codegen;
using namespace smelt::codegen::cuda;
using namespace smelt::codegen::cuda::test;

namespace {

constexpr float EPS = 1e-5f;
constexpr double TOLERANCE = 1e-2; // activations are rounded to bf16
constexpr double ROUTER_TOLERANCE = 1e-5;
const std::string CHIP = "sm_80";

std::string shapeName(const char *role, std::initializer_list<int64_t> sizes) {
  std::string name = role;
  for (int64_t size : sizes) {
    name += "_" + std::to_string(size);
  }
  return name;
}

double dot(const Doubles &x, const Floats &weight, int64_t row) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * weight[row * x.size() + i];
  }
  return sum;
}

Doubles rowOf(const Floats &x, int64_t row, int64_t width) {
  return Doubles(x.begin() + row * width, x.begin() + (row + 1) * width);
}

struct NormLinear {
  int64_t in;
  std::vector<int64_t> outs;
  bool norm, emit, gather, bias;
};

void check(const NormLinear &c, int64_t tokens) {
  int64_t count = c.outs.size(), width = std::accumulate(c.outs.begin(), c.outs.end(), int64_t{0});
  KernelDesc kernel{shapeName("norm_linear", {c.in, width, count}),
                    "norm_linear",
                    {{"in", c.in},
                     {"outs", count},
                     {"out0", 0},
                     {"out1", 0},
                     {"out2", 0},
                     {"norm", c.norm},
                     {"emit_norm", c.emit},
                     {"gather", c.gather},
                     {"bias", c.bias},
                     {"dtype", 1}}};
  Floats x = randomFloats(tokens * c.in, 1), normWeight = randomWeights(c.in, 2, 0.2f, 1.0f);
  std::vector<Floats> weights, biases;
  std::vector<Buffer> weightBuffers, biasBuffers;
  for (int64_t i = 0; i < count; ++i) {
    kernel.params["out" + std::to_string(i)] = c.outs[i];
    weights.push_back(randomWeights(c.outs[i] * c.in, 10 + i));
    biases.push_back(randomWeights(c.outs[i], 20 + i));
    weightBuffers.emplace_back(packRows(weights[i], c.outs[i], c.in));
    biasBuffers.emplace_back(packVector(biases[i]));
  }
  Ints rows;
  for (int32_t row = tokens - 1; c.gather && row >= 0; row -= 2) {
    rows.push_back(row);
  }
  if (!c.gather) {
    rows.resize(tokens);
    std::iota(rows.begin(), rows.end(), 0);
  }
  Doubles expected, expectedNorm;
  for (int32_t row : rows) {
    Doubles y = c.norm ? normalise(&x[row * c.in], normWeight, EPS) : rowOf(x, row, c.in);
    expectedNorm.insert(expectedNorm.end(), y.begin(), y.end());
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t n = 0; n < c.outs[i]; ++n) {
        expected.push_back(dot(y, weights[i], n) + (c.bias ? biases[i][n] : 0.0f));
      }
    }
  }
  Buffer input(x), norm(packVector(normWeight)), gathered(rows), emitted(Floats(tokens * c.in, NAN)),
      out(Floats(rows.size() * width, NAN));
  std::vector<Buffer *> bindings = {&input};
  if (c.norm) {
    bindings.push_back(&norm);
  }
  if (c.gather) {
    bindings.push_back(&gathered);
  }
  if (c.emit) {
    bindings.push_back(&emitted);
  }
  for (Buffer &buffer : weightBuffers) {
    bindings.push_back(&buffer);
  }
  for (Buffer &buffer : biasBuffers) {
    if (c.bias) {
      bindings.push_back(&buffer);
    }
  }
  bindings.push_back(&out);
  int32_t launched = rows.size();
  runKernel(kernel, CHIP, bindings, {launched, bitsOf(EPS)}, {.tokens = tokens, .logit_rows = launched});
  INFO(kernel.name << ", " << tokens << " tokens");
  CHECK(relativeError(out.as<float>(), expected) < (c.emit ? ROUTER_TOLERANCE : TOLERANCE));
  if (c.emit) {
    CHECK(relativeError(emitted.as<float>(), expectedNorm) < 1e-6);
  }
}

} // namespace

TEST_CASE("norm_linear of many tokens: projections of q, k and v, odd sizes", "[cuda]") {
  for (int64_t tokens : {1, 7, 9, 33, 130}) {
    check({24, {12, 6, 6}, true, false, false, true}, tokens);
    check({42, {42, 14, 14}, true, false, false, false}, tokens);
  }
  check({129, {130, 65, 3}, true, false, false, true}, 20);
  check({200, {70}, false, false, false, false}, 17);
  for (int64_t tokens : {20, 70}) { // the ring of stages goes round
    check({600, {40, 30}, true, false, false, false}, tokens);
  }
}

TEST_CASE("norm_linear of many tokens: router logits are as good as f32", "[cuda]") {
  for (int64_t tokens : {1, 9, 33, 130}) {
    check({24, {5}, true, true, false, false}, tokens);
    check({152, {70}, true, true, false, false}, tokens);
  }
}

TEST_CASE("norm_linear of many tokens: the head takes the rows that get logits", "[cuda]") {
  for (int64_t tokens : {1, 9, 70}) {
    check({40, {77}, true, false, true, false}, tokens);
  }
}

TEST_CASE("linear_residual of many tokens, in place or not", "[cuda]") {
  for (auto [tokens, in, out] :
       {std::array<int64_t, 3>{1, 12, 24}, {7, 42, 100}, {33, 126, 33}, {130, 64, 65}}) {
    KernelDesc kernel{
        shapeName("linear_residual", {in, out}), "linear_residual", {{"in", in}, {"out", out}, {"dtype", 1}}};
    Floats a = randomFloats(tokens * in, 1), x = randomFloats(tokens * out, 2),
           weight = randomWeights(in * out, 3);
    float scale = 0.5f;
    Doubles expected;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t n = 0; n < out; ++n) {
        expected.push_back(x[t * out + n] + scale * dot(rowOf(a, t, in), weight, n));
      }
    }
    Buffer input(a), weights(packRows(weight, out, in)), residual(x), separate(Floats(tokens * out, NAN));
    Ints constants = {static_cast<int32_t>(tokens), bitsOf(scale)};
    runKernel(kernel, CHIP, {&input, &weights, &residual, &separate}, constants, {.tokens = tokens});
    runKernel(kernel, CHIP, {&input, &weights, &residual, &residual}, constants, {.tokens = tokens});
    INFO(kernel.name << ", " << tokens << " tokens");
    CHECK(relativeError(separate.as<float>(), expected) < TOLERANCE);
    CHECK(separate.bytes == residual.bytes);
  }
}

TEST_CASE("gate_up of many tokens", "[cuda]") {
  for (auto [tokens, in, out] :
       {std::array<int64_t, 3>{1, 24, 20}, {9, 42, 70}, {33, 100, 20}, {130, 40, 66}}) {
    for (bool norm : {false, true}) {
      KernelDesc kernel{shapeName("gate_up", {in, out, norm}),
                        "gate_up",
                        {{"in", in}, {"out", out}, {"norm", norm}, {"dtype", 1}}};
      Floats x = randomFloats(tokens * in, 1), normWeight = randomWeights(in, 2, 0.2f, 1.0f);
      Floats gate = randomWeights(in * out, 3, 0.3f), up = randomWeights(in * out, 4, 0.3f);
      Doubles expected;
      for (int64_t t = 0; t < tokens; ++t) {
        Doubles y = norm ? normalise(&x[t * in], normWeight, EPS) : rowOf(x, t, in);
        for (int64_t n = 0; n < out; ++n) {
          double g = dot(y, gate, n);
          expected.push_back(g / (1 + std::exp(-g)) * dot(y, up, n));
        }
      }
      Buffer input(x), weight(packVector(normWeight)), gates(packRows(gate, out, in)),
          ups(packRows(up, out, in)), h(Floats(tokens * out, NAN));
      std::vector<Buffer *> bindings = {&input, &gates, &ups, &h};
      if (norm) {
        bindings.insert(bindings.begin() + 1, &weight);
      }
      runKernel(kernel, CHIP, bindings, {static_cast<int32_t>(tokens), bitsOf(EPS)}, {.tokens = tokens});
      INFO(kernel.name << ", " << tokens << " tokens");
      CHECK(relativeError(h.as<float>(), expected) < TOLERANCE);
    }
  }
}
