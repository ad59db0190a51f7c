#include "tests/compiler/Codegen/KernelHarness.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

using namespace smelt::codegen;
using namespace smelt::codegen::test;

namespace {

constexpr float kEps = 1e-5f;
constexpr double kTolerance = 2e-6; // f32 accumulation over a few hundred terms

std::vector<double> normalise(const float *x, const Weights &weight, int64_t n) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    squares += static_cast<double>(x[i]) * x[i];
  }
  std::vector<double> y(n);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = x[i] / std::sqrt(squares / n + kEps) * weight[i];
  }
  return y;
}

Floats toFloats(const std::vector<double> &values) { return Floats(values.begin(), values.end()); }

struct Shape {
  int64_t tokens, in;
  std::vector<int64_t> outs;
};

} // namespace

TEST_CASE("norm_linear: RMSNorm, concatenated projections, bias, emitted rows, gathered rows") {
  forEveryMatrixVariant([](const cpu::IsaLevel &level, WeightType type, int workers) {
    for (const Shape &shape : {Shape{1, 64, {32}}, Shape{3, 42, {42, 14, 14}}, Shape{70, 24, {96, 33, 8}},
                               Shape{7, 231, {100}}, Shape{2, 6, {3, 2, 1}}, Shape{13, 40, {5}}}) {
      for (int mode = 0; mode < 4; ++mode) {
        bool bias = mode & 1, gather = mode & 2, emit = !gather, norm = mode != 3;
        int64_t count = shape.outs.size(), total = 0;
        KernelDesc kernel{"norm_linear_test",
                          "norm_linear",
                          {{"in", shape.in},
                           {"outs", count},
                           {"out1", 0},
                           {"out2", 0},
                           {"norm", norm},
                           {"emit_norm", emit},
                           {"gather", gather},
                           {"bias", bias},
                           {"layout", 1},
                           {"dtype", static_cast<int64_t>(type)}}};
        std::vector<Weights> weights, biases;
        for (int64_t i = 0; i < count; ++i) {
          kernel.params["out" + std::to_string(i)] = shape.outs[i];
          weights.push_back(Weights::matrix(type, shape.outs[i], shape.in, 10 + i));
          biases.emplace_back(vectorType(type), shape.outs[i], 20 + i);
          total += shape.outs[i];
        }
        Floats x = randomFloats(shape.tokens * shape.in, 1);
        Weights normWeight(vectorType(type), shape.in, 2, 0.2f, 1.0f);
        std::vector<int32_t> rows;
        for (int64_t r = 0; r < (gather ? (shape.tokens + 1) / 2 : shape.tokens); ++r) {
          rows.push_back(gather ? shape.tokens - 1 - 2 * r : r);
        }
        Floats xn(shape.tokens * shape.in, NAN), out(rows.size() * total, NAN);
        std::vector<void *> bindings = {x.data()};
        if (norm) {
          bindings.push_back(normWeight.data());
        }
        if (gather) {
          bindings.push_back(rows.data());
        }
        if (emit) {
          bindings.push_back(xn.data());
        }
        for (int64_t i = 0; i < count; ++i) {
          bindings.push_back(weights[i].packed(shape.outs[i]));
        }
        for (size_t i = 0; bias && i < biases.size(); ++i) {
          bindings.push_back(biases[i].data());
        }
        bindings.push_back(out.data());
        LoadedKernel(kernel, level).run(bindings, {static_cast<int32_t>(rows.size()), bitsOf(kEps)}, workers);

        std::vector<double> expected, expectedNorm;
        for (int32_t row : rows) {
          const float *source = &x[row * shape.in];
          std::vector<double> y =
              norm ? normalise(source, normWeight, shape.in) : std::vector<double>(source, source + shape.in);
          expectedNorm.insert(expectedNorm.end(), y.begin(), y.end());
          std::vector<double> operands = asOperands(toFloats(y), level, type);
          for (int64_t i = 0; i < count; ++i) {
            for (int64_t n = 0; n < shape.outs[i]; ++n) {
              double sum = bias ? biases[i][n] : 0.0;
              for (int64_t j = 0; j < shape.in; ++j) {
                sum += operands[j] * weights[i][n * shape.in + j];
              }
              expected.push_back(sum);
            }
          }
        }
        INFO("tokens " << shape.tokens << " in " << shape.in << " mode " << mode);
        CHECK(relativeError(out, expected) < operandTolerance(level, type));
        if (emit) {
          CHECK(relativeError(xn, expectedNorm) < kTolerance);
        }
      }
    }
  });
}

TEST_CASE("linear_residual adds a scaled product, in place or not") {
  forEveryMatrixVariant([](const cpu::IsaLevel &level, WeightType type, int workers) {
    for (auto [tokens, in, out] :
         {std::array<int64_t, 3>{1, 1056, 64}, {5, 42, 100}, {67, 30, 33}, {4, 6, 3}}) {
      KernelDesc kernel{"linear_residual_test",
                        "linear_residual",
                        {{"in", in}, {"out", out}, {"layout", 1}, {"dtype", static_cast<int64_t>(type)}}};
      Floats a = randomFloats(tokens * in, 1), x = randomFloats(tokens * out, 2);
      Weights weight = Weights::matrix(type, out, in, 3);
      float scale = 0.5f;
      std::vector<double> expected;
      for (int64_t t = 0; t < tokens; ++t) {
        std::vector<double> operands = asOperands({&a[t * in], &a[t * in] + in}, level, type);
        for (int64_t n = 0; n < out; ++n) {
          double sum = 0;
          for (int64_t j = 0; j < in; ++j) {
            sum += operands[j] * weight[n * in + j];
          }
          expected.push_back(x[t * out + n] + scale * sum);
        }
      }
      LoadedKernel loaded(kernel, level);
      Floats separate(tokens * out, NAN);
      std::vector<int32_t> constants = {static_cast<int32_t>(tokens), bitsOf(scale)};
      loaded.run({a.data(), weight.packed(out), x.data(), separate.data()}, constants, workers);
      loaded.run({a.data(), weight.packed(out), x.data(), x.data()}, constants, workers);
      CHECK(relativeError(separate, expected) < kTolerance);
      CHECK(x == separate);
    }
  });
}

TEST_CASE("gate_up: SwiGLU of two projections") {
  forEveryMatrixVariant([](const cpu::IsaLevel &level, WeightType type, int workers) {
    for (auto [tokens, in, out] : {std::array<int64_t, 3>{1, 64, 40}, {6, 42, 33}, {66, 24, 7}}) {
      for (bool norm : {false, true}) {
        KernelDesc kernel{
            "gate_up_test",
            "gate_up",
            {{"in", in}, {"out", out}, {"norm", norm}, {"layout", 1}, {"dtype", static_cast<int64_t>(type)}}};
        Floats x = randomFloats(tokens * in, 1), h(tokens * out, NAN);
        Weights normWeight(vectorType(type), in, 2, 0.2f, 1.0f);
        Weights gate = Weights::matrix(type, out, in, 3), up = Weights::matrix(type, out, in, 4);
        std::vector<double> expected;
        for (int64_t t = 0; t < tokens; ++t) {
          const float *row = &x[t * in];
          std::vector<double> y = norm ? normalise(row, normWeight, in) : std::vector<double>(row, row + in);
          std::vector<double> operands = asOperands(toFloats(y), level, type);
          for (int64_t n = 0; n < out; ++n) {
            double g = 0, u = 0;
            for (int64_t j = 0; j < in; ++j) {
              g += operands[j] * gate[n * in + j];
              u += operands[j] * up[n * in + j];
            }
            expected.push_back(g / (1 + std::exp(-g)) * u);
          }
        }
        std::vector<void *> bindings = {x.data()};
        if (norm) {
          bindings.push_back(normWeight.data());
        }
        bindings.insert(bindings.end(), {gate.packed(out), up.packed(out), h.data()});
        LoadedKernel(kernel, level).run(bindings, {static_cast<int32_t>(tokens), bitsOf(kEps)}, workers);
        CHECK(relativeError(h, expected) < (norm ? operandTolerance(level, type) : kTolerance));
      }
    }
  });
}

TEST_CASE("embed copies and widens rows of a table in either layout") {
  forEveryVariant([](const cpu::IsaLevel &level, WeightType type, int workers) {
    for (int64_t hidden : {42, 33}) {
      for (WeightLayout layout : {WeightLayout::row_major, WeightLayout::panel16}) {
        int64_t vocab = 37;
        KernelDesc kernel{"embed_test",
                          "embed",
                          {{"hidden", hidden},
                           {"vocab", vocab},
                           {"layout", static_cast<int64_t>(layout)},
                           {"dtype", static_cast<int64_t>(type)}}};
        Weights table(type, hidden * vocab, 1);
        std::vector<int32_t> tokens = {3, 0, 36, 16, 3};
        Floats out(tokens.size() * hidden, NAN);
        void *data = layout == WeightLayout::panel16 ? table.packed(vocab) : table.data();
        LoadedKernel(kernel, level).run({tokens.data(), data, out.data()}, {5}, workers);
        for (size_t t = 0; t < tokens.size(); ++t) {
          for (int64_t i = 0; i < hidden; ++i) {
            REQUIRE(out[t * hidden + i] == table[tokens[t] * hidden + i]);
          }
        }
      }
    }
  });
}

TEST_CASE("a row's bits do not depend on the rows beside it") {
  forEveryMatrixVariant([](const cpu::IsaLevel &level, WeightType type, int workers) {
    int64_t in = 107, out = 72, tokens = 103;
    KernelDesc kernel{
        "gate_up_test",
        "gate_up",
        {{"in", in}, {"out", out}, {"norm", 0}, {"layout", 1}, {"dtype", static_cast<int64_t>(type)}}};
    Floats x = randomFloats(tokens * in, 1), alone(tokens * out);
    Weights gate = Weights::matrix(type, out, in, 3), up = Weights::matrix(type, out, in, 4);
    void *gatePanels = gate.packed(out), *upPanels = up.packed(out);
    LoadedKernel loaded(kernel, level);
    for (int64_t t = 0; t < tokens; ++t) {
      loaded.run({&x[t * in], gatePanels, upPanels, &alone[t * out]}, {1, 0}, 1);
    }
    for (int32_t rows : {2, 3, 5, 6, 7, 8, 11, 12, 13, 21, 35, 95, 97, 103}) {
      Floats together(rows * out, NAN);
      loaded.run({x.data(), gatePanels, upPanels, together.data()}, {rows, 0}, workers);
      INFO("rows " << rows);
      REQUIRE(std::memcmp(together.data(), alone.data(), together.size() * 4) == 0);
    }
  });
}

// The rows of an identity matrix read weights out one by one.
TEST_CASE("8-bit weights are decoded exactly, whatever the magnitude of their scales") {
  int64_t in = 77, out = 53;
  KernelDesc kernel{
      "linear_residual_test",
      "linear_residual",
      {{"in", in}, {"out", out}, {"layout", 1}, {"dtype", static_cast<int64_t>(WeightType::i8)}}};
  Floats identity(in * in), zero(in * out);
  for (int64_t k = 0; k < in; ++k) {
    identity[k * in + k] = 1;
  }
  for (const cpu::IsaLevel *level : runnableLevels()) {
    LoadedKernel loaded(kernel, *level);
    for (float scale : {2e-37f, 1.0f, 7.6e27f}) { // scales from 2e-40, which is denormal, to almost 2^88
      INFO(level->name << " scale " << scale);
      Weights weight = Weights::matrix(WeightType::i8, out, in, 5, scale);
      void *panels = weight.packed(out);
      Floats alone(in * out, NAN), together(in * out, NAN);
      for (int64_t k = 0; k < in; ++k) {
        loaded.run({&identity[k * in], panels, zero.data(), &alone[k * out]}, {1, bitsOf(1.0f)}, 1);
      }
      loaded.run({identity.data(), panels, zero.data(), together.data()},
                 {static_cast<int32_t>(in), bitsOf(1.0f)}, 2);
      for (int64_t k = 0; k < in; ++k) {
        for (int64_t n = 0; n < out; ++n) {
          REQUIRE(alone[k * out + n] == weight[n * in + k]);
          REQUIRE(together[k * out + n] == weight[n * in + k]);
        }
      }
    }
  }
}

TEST_CASE("rows that 8-bit weights meet are rounded each by its largest element") {
  int64_t in = 45, out = 19;
  KernelDesc kernel{
      "linear_residual_test",
      "linear_residual",
      {{"in", in}, {"out", out}, {"layout", 1}, {"dtype", static_cast<int64_t>(WeightType::i8)}}};
  // Just below a power of two the largest would round to 2^15; zeros have no power of two.
  const float largest[] = {1.0f,    std::nextafter(2.0f, 0.0f), 1.99996f, 1.99998f, 3e-20f, 5e20f, 0.0f, NAN,
                           INFINITY};
  const int64_t rows = std::size(largest);
  Floats x = randomFloats(rows * in, 1), zero(rows * out);
  for (int64_t t = 0; t < rows; ++t) {
    float *row = &x[t * in];
    for (int64_t j = 0; j < in; ++j) {
      row[j] *= std::isfinite(largest[t]) ? 0.2f * largest[t] : 1.0f;
    }
    row[t] = -largest[t];
  }
  Weights weight = Weights::matrix(WeightType::i8, out, in, 5);
  for (const cpu::IsaLevel *level : runnableLevels()) {
    Floats result(rows * out, 1.0f);
    LoadedKernel(kernel, *level)
        .run({x.data(), weight.packed(out), zero.data(), result.data()},
             {static_cast<int32_t>(rows), bitsOf(1.0f)}, 2);
    for (int64_t t = 0; t < rows; ++t) {
      INFO(level->name << ", largest " << largest[t]);
      Floats row(&x[t * in], &x[t * in] + in), mine(&result[t * out], &result[t * out] + out);
      if (!std::isfinite(largest[t])) {
        CHECK(std::all_of(mine.begin(), mine.end(), [](float value) { return std::isnan(value); }));
        continue;
      }
      std::vector<double> operands = asOperands(row, *level, WeightType::i8), expected;
      for (int64_t n = 0; n < out; ++n) {
        double sum = 0;
        for (int64_t j = 0; j < in; ++j) {
          sum += operands[j] * weight[n * in + j];
        }
        expected.push_back(sum);
      }
      if (largest[t] == 0) {
        CHECK(mine == Floats(out, 0.0f));
      } else {
        CHECK(relativeError(mine, expected) < kTolerance);
      }
    }
  }
}

TEST_CASE("sums over many blocks of 8-bit weights are those of one row alone") {
  int64_t in = 2109, out = 40; // 66 blocks, the last one short
  for (const cpu::IsaLevel *level : runnableLevels()) {
    KernelDesc kernel{
        "gate_up_test", "gate_up", {{"in", in}, {"out", out}, {"norm", 0}, {"layout", 1}, {"dtype", 2}}};
    int32_t tokens = 27;
    Floats x = randomFloats(tokens * in, 1), alone(tokens * out), together(tokens * out, NAN);
    Weights gate = Weights::matrix(WeightType::i8, out, in, 3),
            up = Weights::matrix(WeightType::i8, out, in, 4);
    void *gatePanels = gate.packed(out), *upPanels = up.packed(out);
    LoadedKernel loaded(kernel, *level);
    for (int64_t t = 0; t < tokens; ++t) {
      loaded.run({&x[t * in], gatePanels, upPanels, &alone[t * out]}, {1, 0}, 1);
    }
    loaded.run({x.data(), gatePanels, upPanels, together.data()}, {tokens, 0}, 2);
    INFO(level->name);
    CHECK(std::memcmp(together.data(), alone.data(), together.size() * 4) == 0);
  }
}

TEST_CASE("weights in another layout than panel16 are refused by name") {
  KernelDesc kernel{"down", "linear_residual", {{"in", 4}, {"out", 4}, {"dtype", 0}}};
  cpu::CompiledKernels compiled;
  std::string error;
  REQUIRE(!cpu::compileKernels({kernel}, {&cpu::isaLevels().front()}, {}, compiled, error));
  CHECK(error.find("'down' reads weights in row_major") != std::string::npos);
}

TEST_CASE("no row beyond the last is written, whatever the number of rows") {
  forEveryMatrixVariant([](const cpu::IsaLevel &level, WeightType type, int workers) {
    int64_t in = 40, out = 33;
    KernelDesc kernel{"norm_linear_test",
                      "norm_linear",
                      {{"in", in},
                       {"outs", 1},
                       {"out0", out},
                       {"out1", 0},
                       {"out2", 0},
                       {"norm", 0},
                       {"emit_norm", 0},
                       {"gather", 0},
                       {"bias", 0},
                       {"layout", 1},
                       {"dtype", static_cast<int64_t>(type)}}};
    LoadedKernel loaded(kernel, level);
    Weights weight = Weights::matrix(type, out, in, 1);
    void *panels = weight.packed(out);
    constexpr int64_t kGuardRows = 8;
    for (int64_t rows = 1; rows <= 67; ++rows) {
      Floats x = randomFloats(rows * in, 2), y((rows + kGuardRows) * out, 7.0f);
      loaded.run({x.data(), panels, y.data()}, {static_cast<int32_t>(rows), 0}, workers);
      for (size_t i = rows * out; i < y.size(); ++i) {
        REQUIRE(y[i] == 7.0f);
      }
    }
  });
}
