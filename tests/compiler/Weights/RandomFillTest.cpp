#include "compiler/Weights/RandomFill.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace smelt::weights;

namespace {

std::vector<float> values(uint64_t key, Distribution distribution, size_t count) {
  std::vector<float> result(count);
  fillF32(key, distribution, 0, result.data(), count);
  return result;
}

struct Moments {
  double mean, deviation, kurtosis, largest;
};

Moments moments(const std::vector<float> &sample) {
  double count = static_cast<double>(sample.size());
  double sum = 0, largest = 0;
  for (float value : sample) {
    sum += value;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  double mean = sum / count, second = 0, fourth = 0;
  for (float value : sample) {
    double square = (value - mean) * (value - mean);
    second += square;
    fourth += square * square;
  }
  second /= count;
  return {mean, std::sqrt(second), fourth / count / (second * second), largest};
}

} // namespace

TEST_CASE("the values of a seed never change") {
  // Checked-in weights, bug reports and published timings refer to seeds.
  CHECK(tensorKey(0, "model.norm.weight") == 0x86f0cb6af602213bU);
  std::vector<float> sample = values(tensorKey(7, "model.embed_tokens.weight"), {0, 1}, 4);
  CHECK(sample == std::vector<float>{-0x1.4fdb02p-1F, 0x1.81d078p-3F, 0x1.6add5ap-2F, -0x1.ae8266p-1F});
}

TEST_CASE("values are approximately normal") {
  Moments unit = moments(values(tensorKey(1, "a"), {0, 1}, 1 << 20));
  CHECK(std::abs(unit.mean) < 0.005);
  CHECK(unit.deviation == Approx(1).epsilon(0.005));
  // A sum of four uniforms has kurtosis 3 - 1.2/4.
  CHECK(unit.kurtosis == Approx(2.7).epsilon(0.01));
  CHECK(unit.largest < 3.4642);
  CHECK(unit.largest > 3);

  Moments norm = moments(values(tensorKey(1, "b"), {1, 0.05F}, 1 << 20));
  CHECK(norm.mean == Approx(1).epsilon(0.001));
  CHECK(norm.deviation == Approx(0.05).epsilon(0.005));
}

TEST_CASE("streams of different seeds and names are unrelated") {
  std::vector<float> base = values(tensorKey(1, "a"), {0, 1}, 1 << 16);
  for (uint64_t key : {tensorKey(2, "a"), tensorKey(1, "b"), tensorKey(1, "A")}) {
    std::vector<float> other = values(key, {0, 1}, 1 << 16);
    double product = 0;
    for (size_t i = 0; i < base.size(); ++i) {
      product += static_cast<double>(base[i]) * other[i];
    }
    CHECK(std::abs(product / static_cast<double>(base.size())) < 0.02);
  }
}

TEST_CASE("a part of a tensor has the values it has in the whole") {
  uint64_t key = tensorKey(3, "x");
  std::vector<float> whole = values(key, {0, 0.3F}, 1000);
  for (size_t first : {0U, 1U, 7U, 63U, 999U}) {
    std::vector<float> part(1000 - first);
    fillF32(key, {0, 0.3F}, first, part.data(), part.size());
    CHECK(part == std::vector<float>(whole.begin() + static_cast<std::ptrdiff_t>(first), whole.end()));
  }
}

TEST_CASE("bf16 values are the f32 values rounded to nearest even") {
  uint64_t key = tensorKey(4, "x");
  std::vector<float> exact = values(key, {0.5F, 2}, 10000);
  std::vector<uint16_t> rounded(exact.size());
  fillBf16(key, {0.5F, 2}, 0, rounded.data(), rounded.size());
  bool nearest = true;
  for (size_t i = 0; i < exact.size(); ++i) {
    uint32_t low = std::bit_cast<uint32_t>(exact[i]) & 0xFFFF0000U;
    uint32_t remainder = std::bit_cast<uint32_t>(exact[i]) & 0xFFFFU;
    bool up = remainder > 0x8000U || (remainder == 0x8000U && (low & 0x10000U));
    nearest &= rounded[i] == (low + (up ? 0x10000U : 0U)) >> 16;
  }
  CHECK(nearest);
}
