#include "tests/compiler/Codegen/CUDA/CudaHarness.h"

#include <catch2/catch.hpp>

using namespace smelt::codegen;
using namespace smelt::codegen::test;
using Layout = Weights::Layout;

namespace {

constexpr double TOLERANCE = 1e-5; // f32 throughout: far below the 1e-2 of bf16 activations
constexpr float EPS = 1e-5f, SCALE = 0.5f;

// row . x, in double precision.
double dot(const Weights &w, int64_t row, const double *x, int64_t width) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) {
    sum += w(row, i) * x[i];
  }
  return sum;
}
std::vector<double> widened(const Floats &x) { return {x.begin(), x.end()}; }
double silu(double x) { return x / (1 + std::exp(-x)); }

struct Shape {
  int64_t in, out;
};

} // namespace

TEST_CASE("embed copies rows of the table in any step") {
  for (int64_t hidden : {8, 20, 42, 1848}) {
    int64_t vocab = 11;
    Weights table(Layout::rows, vocab, hidden, 1);
    std::vector<int32_t> ids = {3, 10, 0, 3, 7};
    for (auto length : {cuda::StepLength::brief, cuda::StepLength::any}) {
      auto out = blank(4 * ids.size() * hidden);
      auto tokens = uploadInts(ids);
      DeviceKernel kernel(request("embed", length, {{"hidden", hidden}, {"vocab", vocab}, {"dtype", 1}}));
      kernel.run({tokens.address(), table.address(), out.address()}, {static_cast<int32_t>(ids.size())},
                 {.tokens = static_cast<int64_t>(ids.size())});
      Floats rows = out.read<float>();
      for (size_t t = 0; t < ids.size(); ++t) {
        for (int64_t i = 0; i < hidden; ++i) {
          REQUIRE(rows[t * hidden + i] == table(ids[t], i));
        }
      }
    }
  }
}

TEST_CASE("linear_residual adds a scaled projection, in place or not") {
  for (Shape s :
       {Shape{24, 20}, Shape{7, 3}, Shape{1512, 40}, Shape{2304, 24}, Shape{5000, 9}, Shape{64, 4100}}) {
    CAPTURE(s.in, s.out);
    Weights w(Layout::rows, s.out, s.in, 2);
    DeviceKernel kernel(brief("linear_residual", {{"in", s.in}, {"out", s.out}, {"dtype", 1}}));
    for (int32_t tokens : {1, 2, 3, 5, 8}) {
      CAPTURE(tokens);
      Floats a = randomFloats(tokens * s.in, 3), x = randomFloats(tokens * s.out, 4);
      auto deviceA = uploadFloats(a), deviceX = uploadFloats(x), out = blank(4 * tokens * s.out);
      std::vector<double> expected;
      std::vector<double> wide = widened(a);
      for (int32_t t = 0; t < tokens; ++t) {
        for (int64_t n = 0; n < s.out; ++n) {
          expected.push_back(x[t * s.out + n] + SCALE * dot(w, n, wide.data() + t * s.in, s.in));
        }
      }
      std::vector<int32_t> constants = {tokens, bitsOf(SCALE)};
      kernel.run({deviceA.address(), w.address(), deviceX.address(), out.address()}, constants,
                 {.tokens = tokens});
      CHECK(relativeError(out.read<float>(), expected) < TOLERANCE);
      kernel.run({deviceA.address(), w.address(), deviceX.address(), deviceX.address()}, constants,
                 {.tokens = tokens});
      CHECK(deviceX.read<float>() == out.read<float>());
    }
  }
}

TEST_CASE("rows a warp multiplies at once change no bit of a projection") {
  Shape s{1512, 41};
  Weights w(Layout::rows, s.out, s.in, 2);
  Floats a = randomFloats(s.in, 3), x = randomFloats(s.out, 4);
  auto deviceA = uploadFloats(a), deviceX = uploadFloats(x);
  std::vector<Floats> results;
  for (int64_t rows : {0, 1, 2, 4}) { // 0: as the compiler chooses
    DeviceKernel kernel(
        brief("linear_residual", {{"in", s.in}, {"out", s.out}, {"dtype", 1}, {"rows_per_warp", rows}}));
    if (rows) {
      CHECK(kernel.kernel().stages[0].grid[0].fixed == (s.out + rows - 1) / rows);
    }
    auto out = blank(4 * s.out);
    kernel.run({deviceA.address(), w.address(), deviceX.address(), out.address()}, {1, bitsOf(SCALE)},
               {.tokens = 1});
    results.push_back(out.read<float>());
    CHECK(results.back() == results.front());
  }
}

TEST_CASE("a token's projection is the same to the bit in every short step") {
  for (int64_t in : {24, 1848, 2500, 9000}) {
    int64_t out = 17;
    CAPTURE(in);
    Weights w(Layout::rows, out, in, 5), norm(Layout::vector, 1, in, 6, 0.1f, 1.0f);
    DeviceKernel kernel(brief("norm_linear", {{"in", in},
                                              {"outs", 1},
                                              {"out0", out},
                                              {"out1", 0},
                                              {"out2", 0},
                                              {"norm", 1},
                                              {"emit_norm", 0},
                                              {"gather", 0},
                                              {"bias", 0},
                                              {"dtype", 1}}));
    Floats x = randomFloats(8 * in, 7);
    auto deviceX = uploadFloats(x);
    Floats eight;
    for (int32_t tokens : {8, 1, 2, 3, 4, 7}) {
      auto result = blank(4 * tokens * out);
      kernel.run({deviceX.address(), norm.address(), w.address(), result.address()}, {tokens, bitsOf(EPS)},
                 {.tokens = tokens});
      Floats rows = result.read<float>();
      if (tokens == 8) {
        eight = rows;
      }
      CHECK(std::equal(rows.begin(), rows.end(), eight.begin()));
    }
  }
}

TEST_CASE("norm_linear concatenates its outputs, with bias, gathered rows and the normalised rows") {
  for (Shape s : {Shape{24, 20}, Shape{1848, 30}, Shape{42, 4200}, Shape{2304, 12}}) {
    for (int64_t outs : {1, 3}) {
      for (int mode = 0; mode < 3; ++mode) { // plain, gathered, emitting
        CAPTURE(s.in, s.out, outs, mode);
        bool gather = mode == 1, emit = mode == 2, norm = mode != 0, bias = outs == 3;
        const int64_t widths[] = {s.out, outs == 3 ? s.out / 2 + 1 : 0, outs == 3 ? 5 : 0};
        int64_t width = widths[0] + widths[1] + widths[2];
        DeviceKernel kernel(brief("norm_linear", {{"in", s.in},
                                                  {"outs", outs},
                                                  {"out0", widths[0]},
                                                  {"out1", widths[1]},
                                                  {"out2", widths[2]},
                                                  {"norm", norm},
                                                  {"emit_norm", emit},
                                                  {"gather", gather},
                                                  {"bias", bias},
                                                  {"dtype", 1}}));
        Weights normWeight(Layout::vector, 1, s.in, 8, 0.1f, 1.0f);
        std::vector<Weights> w, b;
        for (int64_t i = 0; i < outs; ++i) {
          w.emplace_back(Layout::rows, widths[i], s.in, 9 + i);
          b.emplace_back(Layout::vector, 1, widths[i], 12 + i);
        }
        int32_t tokens = 5;
        std::vector<int32_t> rows =
            gather ? std::vector<int32_t>{4, 1, 3} : std::vector<int32_t>{0, 1, 2, 3, 4};
        auto count = static_cast<int32_t>(rows.size());
        Floats x = randomFloats(tokens * s.in, 15, 3.0f);
        std::vector<double> xn = norm ? normalised(x, tokens, s.in, normWeight, EPS) : widened(x);
        std::vector<double> expected;
        for (int32_t row : rows) {
          for (int64_t i = 0; i < outs; ++i) {
            for (int64_t n = 0; n < widths[i]; ++n) {
              expected.push_back(dot(w[i], n, xn.data() + row * s.in, s.in) + (bias ? b[i][n] : 0));
            }
          }
        }
        auto deviceX = uploadFloats(x), out = blank(4 * count * width), deviceRows = uploadInts(rows);
        auto deviceNorm = blank(4 * tokens * s.in);
        std::vector<uint64_t> bindings = {deviceX.address()};
        if (norm) {
          bindings.push_back(normWeight.address());
        }
        if (gather) {
          bindings.push_back(deviceRows.address());
        }
        if (emit) {
          bindings.push_back(deviceNorm.address());
        }
        for (const Weights &matrix : w) {
          bindings.push_back(matrix.address());
        }
        for (int64_t i = 0; bias && i < outs; ++i) {
          bindings.push_back(b[i].address());
        }
        bindings.push_back(out.address());
        kernel.run(bindings, {count, bitsOf(EPS)}, {.tokens = tokens, .logit_rows = count});
        CHECK(relativeError(out.read<float>(), expected) < TOLERANCE);
        if (emit) {
          CHECK(relativeError(deviceNorm.read<float>(), xn) < TOLERANCE);
        }
      }
    }
  }
}

TEST_CASE("gate_up of short steps is SwiGLU's first half") {
  for (Shape s : {Shape{24, 20}, Shape{1848, 33}, Shape{100, 2500}}) {
    for (bool norm : {false, true}) {
      CAPTURE(s.in, s.out, norm);
      Weights normWeight(Layout::vector, 1, s.in, 16, 0.1f, 1.0f);
      float scale = 1 / std::sqrt(static_cast<float>(s.in));
      Weights gate(Layout::rows, s.out, s.in, 17, scale), up(Layout::rows, s.out, s.in, 18, scale);
      // Conversions differ between the oldest target and the others.
      DeviceKernel kernel(brief("gate_up", {{"in", s.in}, {"out", s.out}, {"norm", norm}, {"dtype", 1}}),
                          norm ? "sm_80" : "sm_90a");
      for (int32_t tokens : {1, 3, 6}) {
        Floats x = randomFloats(tokens * s.in, 19);
        std::vector<double> xn = norm ? normalised(x, tokens, s.in, normWeight, EPS) : widened(x), expected;
        for (int32_t t = 0; t < tokens; ++t) {
          for (int64_t n = 0; n < s.out; ++n) {
            const double *row = xn.data() + t * s.in;
            expected.push_back(silu(dot(gate, n, row, s.in)) * dot(up, n, row, s.in));
          }
        }
        auto deviceX = uploadFloats(x), h = blank(4 * tokens * s.out);
        std::vector<uint64_t> bindings = {deviceX.address()};
        if (norm) {
          bindings.push_back(normWeight.address());
        }
        for (uint64_t address : {gate.address(), up.address(), h.address()}) {
          bindings.push_back(address);
        }
        kernel.run(bindings, {tokens, bitsOf(EPS)}, {.tokens = tokens});
        CHECK(relativeError(h.read<float>(), expected) < TOLERANCE);
      }
    }
  }
}
