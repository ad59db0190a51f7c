// Kernels that nvcc compiled (data/kernels.cu), with and without checks, in program order and shuffled.
#include "tests/cuda_driver/Ptx.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace smelt::tests;

namespace {

std::string kernels() {
  std::ifstream file(SMELT_TEST_DATA "/kernels.ptx");
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Mode {
  const char *check, *seed;
};

/// Runs `test` under every mode; results must not depend on it.
template <class Fn> void inEveryMode(Fn test) {
  for (const Mode &mode : {Mode{"1", "0"}, Mode{"0", "0"}, Mode{"1", "7"}, Mode{"0", "1234"}}) {
    INFO("check " << mode.check << ", seed " << mode.seed);
    setenv("SMELT_TEST_CUDA_CHECK", mode.check, 1);
    setenv("SMELT_TEST_CUDA_SEED", mode.seed, 1);
    test();
  }
  unsetenv("SMELT_TEST_CUDA_CHECK");
  unsetenv("SMELT_TEST_CUDA_SEED");
}

} // namespace

TEST_CASE("compiled: rms_norm") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernels());
  constexpr int kRows = 3, kWidth = 200;
  std::vector<uint16_t> x(kRows * kWidth);
  std::vector<float> w(kWidth);
  for (int i = 0; i < kRows * kWidth; ++i) {
    x[i] = static_cast<uint16_t>(bits(std::sin(float(i))) >> 16);
    w[i % kWidth] = 1 + 0.01f * float(i % kWidth);
  }
  const DeviceBuffer dx = device.upload(x), dw = device.upload(w);
  inEveryMode([&] {
    const DeviceBuffer dy = device.allocate(x.size() * 2);
    module.run("rms_norm", shape(kRows, 128), {dx, dw, dy, kWidth, 1e-5f});
    const auto y = dy.read<uint16_t>();
    for (int row = 0; row < kRows; ++row) {
      double sum = 0;
      for (int i = 0; i < kWidth; ++i) {
        sum += std::pow(double(real(uint32_t(x[row * kWidth + i]) << 16)), 2);
      }
      const double scale = 1 / std::sqrt(sum / kWidth + 1e-5);
      for (int i = 0; i < kWidth; ++i) {
        const double want = double(real(uint32_t(x[row * kWidth + i]) << 16)) * double(w[i]) * scale;
        REQUIRE(std::fabs(double(real(uint32_t(y[row * kWidth + i]) << 16)) - want) <=
                std::fabs(want) / 200 + 1e-7);
      }
    }
  });
}

TEST_CASE("compiled: histogram") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernels());
  std::vector<uint8_t> bytes(5000);
  std::vector<int> want(256, 0);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(i * i * 31 >> 5);
    ++want[bytes[i]];
  }
  const DeviceBuffer in = device.upload(bytes);
  inEveryMode([&] {
    const DeviceBuffer bins = device.upload(std::vector<int>(256, 0));
    module.run("histogram", shape(5, 96), {in, int(bytes.size()), bins});
    CHECK(bins.read<int>() == want);
  });
}

TEST_CASE("compiled: a switch in a loop, 64-bit arithmetic, local memory") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernels());
  // Odd threads skip the negation: divergence inside the loop.
  const std::vector<int> program = {0, 3, 2, 0, 0, 1000003, 1, 0, 4, 1, 5, 0, 0, 5, 2, 0, 3, 0};
  const DeviceBuffer code = device.upload(program);
  inEveryMode([&] {
    const DeviceBuffer out = device.allocate(100 * 8);
    module.run("interpret", shape(2, 50), {code, int(program.size() / 2), out});
    const auto got = out.read<int64_t>();
    for (int64_t t = 0; t < 100; ++t) {
      int64_t v = t * 3 + 1000003;
      v = v % 2 != 0 ? v : -v;
      CHECK(got[static_cast<size_t>(t)] == v * 5 % 7);
    }
  });
}
