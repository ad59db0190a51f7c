// The arithmetic of the interpreter against values worked out by hand.
#include "dialect/Interpreter/Ops.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace mlir::smelt::interpreter;

namespace {

void requireClose(const Tensor &actual, const std::vector<int64_t> &shape,
                  const std::vector<double> &expected) {
  REQUIRE(actual.shape == shape);
  REQUIRE(actual.values.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("element " << i);
    CHECK(actual.values[i] == Approx(expected[i]).epsilon(1e-14).margin(1e-14));
  }
}

double silu(double x) { return x / (1 + std::exp(-x)); }

} // namespace

TEST_CASE("embed reads the rows the tokens name") {
  Tensor table({3, 2}, {10, 11, 20, 21, 30, 31});
  requireClose(evalEmbed(Tensor({4}, {2, 0, 2, 1}), table), {4, 2}, {30, 31, 10, 11, 30, 31, 20, 21});
}

TEST_CASE("rms_norm divides by the root of the mean square plus eps") {
  // Mean squares: (9 + 16) / 2 = 12.5 and 0.
  Tensor input({2, 2}, {3, 4, 0, 0}), weight({2}, {1, 10});
  double scale = 1 / std::sqrt(12.5 + 0.25);
  requireClose(evalRmsNorm(input, weight, 0.25, 1), {2, 2}, {3 * scale, 40 * scale, 0, 0});
}

TEST_CASE("rms_norm with heads normalises each part of a row with the same weight") {
  // Mean squares of the parts: (1 + 49) / 2 = 25 and (4 + 14^2) / 2 = 100.
  Tensor input({1, 4}, {1, 7, 2, 14}), weight({2}, {1, -1});
  requireClose(evalRmsNorm(input, weight, 0, 2), {1, 4}, {0.2, -1.4, 0.2, -1.4});
}

TEST_CASE("linear multiplies by the transposed weight and adds the bias") {
  Tensor input({2, 3}, {1, 2, 3, -1, 0, 1}), weight({2, 3}, {1, 0, 2, 5, 1, 0}), bias({2}, {100, 200});
  requireClose(evalLinear(input, weight, nullptr), {2, 2}, {7, 7, 1, -5});
  requireClose(evalLinear(input, weight, &bias), {2, 2}, {107, 207, 101, 195});
}

TEST_CASE("linear sums rows longer than its eight running sums") {
  Tensor input({1, 21}), weight({1, 21});
  double expected = 0;
  for (int i = 0; i < 21; ++i) {
    input.values[i] = i + 1;
    weight.values[i] = 2 * i - 7;
    expected += (i + 1) * (2 * i - 7);
  }
  requireClose(evalLinear(input, weight, nullptr), {1, 1}, {expected});
}

TEST_CASE("rope rotates column i against column i + d/2 by position * theta^(-2i/d)") {
  // d = 4, theta = 100: angles t * 1 and t * 0.1. Two heads, all at unit vectors.
  Tensor input({3, 8}, {1, 0, 0, 0, 0, 0, 0, 1, //
                        1, 0, 0, 0, 0, 0, 0, 1, //
                        0, 1, 0, 0, 0, 0, 1, 0});
  requireClose(evalRope(input, 2, 100), {3, 8},
               {1,
                0,
                0,
                0,
                0,
                0,
                0,
                1, //
                std::cos(1),
                0,
                std::sin(1),
                0,
                0,
                -std::sin(0.1),
                0,
                std::cos(0.1), //
                0,
                std::cos(0.2),
                0,
                std::sin(0.2),
                -std::sin(2),
                0,
                std::cos(2),
                0});
}

TEST_CASE("rope keeps lengths and makes products depend on distance alone") {
  Tensor same({6, 6});
  for (int64_t t = 0; t < 6; ++t) {
    for (int64_t i = 0; i < 6; ++i) {
      same.row(t)[i] = 1 + i;
    }
  }
  Tensor rotated = evalRope(same, 1, 10000);
  auto product = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t i = 0; i < 6; ++i) {
      sum += rotated.row(a)[i] * rotated.row(b)[i];
    }
    return sum;
  };
  CHECK(product(5, 5) == Approx(91).epsilon(1e-13));
  CHECK(product(3, 1) == Approx(product(5, 3)).epsilon(1e-13));
}

TEST_CASE("attention is causal, scaled and shares key heads among queries") {
  // One KV head for two query heads of size 1; scores are q * k.
  AttentionShape shape{2, 1, 1};
  Tensor query({2, 2}, {5, -3, 1, 2}), key({2, 1}, {0, std::log(3.0)}), value({2, 1}, {10, 20});
  // Row 0 sees only itself. Row 1: weights 1 : 3 for head 0 and 1 : 9 for head 1.
  requireClose(evalAttention(query, key, value, shape), {2, 2}, {10, 10, 17.5, 19});
}

TEST_CASE("attention divides scores by the root of the head size") {
  // Size 4: the product 2 * ln 3 counts half.
  AttentionShape shape{1, 1, 4};
  Tensor query({2, 4}, {0, 0, 0, 0, 2, 0, 0, 0}), key({2, 4}, {0, 9, 9, 9, std::log(3.0), 9, 9, 9});
  Tensor value({2, 4}, {0, 0, 0, 4, 4, 0, 0, 4});
  requireClose(evalAttention(query, key, value, shape), {2, 4}, {0, 0, 0, 4, 3, 0, 0, 4});
}

TEST_CASE("attention gives query heads the key head of their group") {
  AttentionShape shape{4, 2, 1};
  Tensor query({1, 4}, {1, 1, 1, 1}), key({1, 2}, {1, 1}), value({1, 2}, {7, 8});
  requireClose(evalAttention(query, key, value, shape), {1, 4}, {7, 7, 8, 8});
}

TEST_CASE("attention survives scores beyond the range of exp") {
  AttentionShape shape{1, 1, 1};
  Tensor query({2, 1}, {0, 1000}), key({2, 1}, {1, 2}), value({2, 1}, {5, 6});
  requireClose(evalAttention(query, key, value, shape), {2, 1}, {5, 6});
}

TEST_CASE("experts are chosen by descending logit, ties to the lower index") {
  const double logits[] = {1, 3, 2, 3, -1, 2};
  CHECK(topExperts(logits, 6, 1) == std::vector<int64_t>{1});
  CHECK(topExperts(logits, 6, 3) == std::vector<int64_t>{1, 3, 2});
  CHECK(topExperts(logits, 6, 6) == std::vector<int64_t>{1, 3, 2, 5, 0, 4});
}

TEST_CASE("route weights: softmax over all experts, sigmoid of each, renormalised or not") {
  // exp: 1, 3, 4; their sum is 8.
  Tensor logits({1, 3}, {0, std::log(3.0), std::log(4.0)}), chosen({1, 2}, {2, 1});
  requireClose(evalRouteWeights(logits, chosen, false, false), {1, 2}, {4 / 8., 3 / 8.});
  requireClose(evalRouteWeights(logits, chosen, false, true), {1, 2}, {4 / 7., 3 / 7.});
  requireClose(evalRouteWeights(logits, chosen, true, false), {1, 2}, {4 / 5., 3 / 4.});
  requireClose(evalRouteWeights(logits, chosen, true, true), {1, 2}, {16 / 31., 15 / 31.});
}

TEST_CASE("expert_linear uses the matrices of each token's experts and reads only those") {
  // Expert e multiplies by e + 1, and by -(e + 1).
  std::vector<int64_t> read;
  auto readExpert = [&](int64_t expert) {
    read.push_back(expert);
    return Tensor({2, 1}, {expert + 1., -(expert + 1.)});
  };
  Tensor indices({2, 2}, {3, 0, 0, 2});
  requireClose(evalExpertLinear(Tensor({2, 1}, {10, 100}), indices, 2, readExpert), {2, 2, 2},
               {40, -40, 10, -10, 100, -100, 300, -300});
  CHECK(read == std::vector<int64_t>{0, 2, 3});
  // A row for each expert of a token.
  requireClose(evalExpertLinear(Tensor({2, 2, 1}, {1, 2, 3, 4}), indices, 2, readExpert), {2, 2, 2},
               {4, -4, 2, -2, 3, -3, 12, -12});
}

TEST_CASE("swiglu gates by x * sigmoid(x)") {
  requireClose(evalSwiglu(Tensor({1, 3}, {0, 2, -1}), Tensor({1, 3}, {5, 3, 4})), {1, 3},
               {0, 3 * silu(2), 4 * silu(-1)});
}

TEST_CASE("combine sums a token's rows by weight") {
  Tensor rows({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), weights({2, 2}, {1, 10, 0.5, 0});
  requireClose(evalCombine(rows, weights), {2, 2}, {31, 42, 2.5, 3});
}

TEST_CASE("residual_add scales the update") {
  requireClose(evalResidualAdd(Tensor({1, 2}, {1, 2}), Tensor({1, 2}, {10, -4}), 0.25), {1, 2}, {3.5, 1});
}

TEST_CASE("add") {
  requireClose(evalAdd(Tensor({1, 2}, {1, 2}), Tensor({1, 2}, {10, -4})), {1, 2}, {11, -2});
}

TEST_CASE("a row does not depend on how many rows there are, nor on threads") {
  constexpr int64_t kRows = 300, kWidth = 96;
  Tensor input({kRows, kWidth}), weight({kWidth, kWidth});
  for (size_t i = 0; i < input.values.size(); ++i) {
    input.values[i] = std::sin(0.1 * i);
  }
  for (size_t i = 0; i < weight.values.size(); ++i) {
    weight.values[i] = std::cos(0.3 * i);
  }
  Tensor last({1, kWidth}, std::vector<double>(input.row(kRows - 1), input.row(kRows - 1) + kWidth));
  Tensor all = evalLinear(input, weight, nullptr), one = evalLinear(last, weight, nullptr);
  CHECK(std::vector<double>(all.row(kRows - 1), all.row(kRows - 1) + kWidth) == one.values);

  AttentionShape shape{4, 2, 24};
  Tensor keys({kRows, 48}, std::vector<double>(input.values.begin(), input.values.begin() + kRows * 48));
  Tensor full = evalAttention(input, keys, keys, shape);
  Tensor prefix =
      evalAttention(Tensor({2, kWidth}, {input.values.begin(), input.values.begin() + 2 * kWidth}),
                    Tensor({2, 48}, {keys.values.begin(), keys.values.begin() + 96}),
                    Tensor({2, 48}, {keys.values.begin(), keys.values.begin() + 96}), shape);
  CHECK(std::vector<double>(full.row(0), full.row(2)) == prefix.values);
}
