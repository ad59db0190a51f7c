// cvt and 16-bit arithmetic against independent conversions.
#include "tests/cuda_driver/Ptx.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace smelt::tests;

namespace {

/// Nearest bf16 by search over the two neighbours, ties to even.
uint32_t nearestBf16(float value) {
  const uint32_t low = bits(value) >> 16, high = low + 1;
  const double down = std::fabs(double(value) - double(real(low << 16))),
               up = std::fabs(double(real(high << 16)) - double(value));
  return down < up || (down == up && low % 2 == 0) ? low : high;
}

double f16Value(uint32_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const double magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return h & 0x8000 ? -magnitude : magnitude;
}

uint32_t nearestF16(float value) {
  uint32_t best = 0;
  for (uint32_t h = 0; h < 0x7c00; ++h) { // the positive finite ones
    const double now = std::fabs(f16Value(h) - std::fabs(double(value))),
                 then = std::fabs(f16Value(best) - std::fabs(double(value)));
    if (now < then || (now == then && h % 2 == 0)) {
      best = h;
    }
  }
  return best | (value < 0 ? 0x8000 : 0);
}

const std::vector<float> kValues = {1.0f,     -2.5f,  0.1f,  3.14159f,  1.00390625f, 1.01171875f,
                                    65000.0f, -1e-5f, 6e-8f, 0.333333f, 1234.5f,     -7.999f};

std::vector<uint32_t> asBits(const std::vector<float> &values) {
  std::vector<uint32_t> result;
  for (const float v : values) {
    result.push_back(bits(v));
  }
  return result;
}

} // namespace

TEST_CASE("floats to bf16 and f16") {
  const auto a = asBits(kValues);
  const auto bf = run32("cvt.rn.bf16.f32 %rs1, %r1; cvt.u32.u16 %r0, %rs1;", a);
  const auto half = run32("cvt.rn.f16.f32 %rs1, %r1; cvt.u32.u16 %r0, %rs1;", a);
  const auto back = run32("cvt.rn.f16.f32 %rs1, %r1; cvt.f32.f16 %r0, %rs1;", a);
  const auto pair = run32("cvt.rn.bf16x2.f32 %r0, %r1, %r2;", a, std::vector<uint32_t>(a.rbegin(), a.rend()));
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(kValues[i]);
    CHECK(bf[i] == nearestBf16(kValues[i]));
    CHECK(half[i] == nearestF16(kValues[i]));
    CHECK(double(real(back[i])) == f16Value(half[i]));
    CHECK(pair[i] == (bf[i] << 16 | bf[a.size() - 1 - i]));
  }
  const auto special =
      run32("cvt.rn.bf16.f32 %rs1, %r1; cvt.f32.bf16 %r0, %rs1;", asBits({INFINITY, -INFINITY, NAN}));
  CHECK(special[0] == bits(INFINITY));
  CHECK(special[1] == bits(-INFINITY));
  CHECK(std::isnan(real(special[2])));
}

TEST_CASE("floats to integers") {
  const std::vector<float> values = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 3e9f, -3e9f, NAN, 1e20f, -7.9f};
  const auto a = asBits(values);
  const auto nearest = run32("cvt.rni.s32.f32 %r0, %r1;", a), zero = run32("cvt.rzi.s32.f32 %r0, %r1;", a);
  const auto down = run32("cvt.rmi.s32.f32 %r0, %r1;", a), up = run32("cvt.rpi.u32.f32 %r0, %r1;", a);
  const auto rounded = run32("cvt.rni.f32.f32 %r0, %r1;", a);
  const auto clamp = [](double v, double low, double high) {
    return std::isnan(v) ? 0.0 : std::min(std::max(v, low), high);
  };
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(values[i]);
    CHECK(int32_t(nearest[i]) == int32_t(clamp(std::nearbyint(values[i]), INT32_MIN, INT32_MAX)));
    CHECK(int32_t(zero[i]) == int32_t(clamp(std::trunc(values[i]), INT32_MIN, INT32_MAX)));
    CHECK(int32_t(down[i]) == int32_t(clamp(std::floor(values[i]), INT32_MIN, INT32_MAX)));
    CHECK(up[i] == uint32_t(clamp(std::ceil(values[i]), 0, UINT32_MAX)));
    CHECK((std::isnan(values[i]) ? std::isnan(real(rounded[i]))
                                 : real(rounded[i]) == std::nearbyintf(values[i])));
  }
}

TEST_CASE("integers among themselves and to floats") {
  const std::vector<uint32_t> a = {0,      1,      127,        128,        255,        256,
                                   0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 16777217};
  const auto s8 = run32("cvt.s32.s8 %r0, %r1;", a), u16 = run32("cvt.u32.u16 %r0, %r1;", a);
  const auto wide = run32("cvt.s64.s32 %rd1, %r1; shr.u64 %rd1, %rd1, 16; cvt.u32.u64 %r0, %rd1;", a);
  const auto saturated = run32("cvt.sat.u8.s32 %r0, %r1;", a);
  const auto f = run32("cvt.rn.f32.s32 %r0, %r1;", a), z = run32("cvt.rz.f32.u32 %r0, %r1;", a);
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(a[i]);
    CHECK(s8[i] == uint32_t(int32_t(int8_t(a[i]))));
    CHECK(u16[i] == (a[i] & 0xffff));
    CHECK(wide[i] == uint32_t(uint64_t(int64_t(int32_t(a[i]))) >> 16));
    CHECK(saturated[i] == uint32_t(std::clamp(int32_t(a[i]), 0, 255)));
    CHECK(f[i] == bits(float(int32_t(a[i]))));
    CHECK(double(real(z[i])) <= double(a[i]));
    CHECK(double(std::nextafterf(real(z[i]), INFINITY)) > double(a[i]));
  }
}

TEST_CASE("tf32 and fp8") {
  const auto tf = run32("cvt.rna.tf32.f32 %r0, %r1;", asBits({1.0f, 1.00048828125f, 1.000244140625f, -3.7f}));
  CHECK(real(tf[0]) == 1.0f);
  CHECK(real(tf[1]) == 1.0009765625f); // half a unit, away from zero
  CHECK(real(tf[2]) == 1.0f);
  CHECK(std::fabs(real(tf[3]) + 3.7f) < 3.7f / 2048);
  // 1.0 and 2.0 in e4m3 are 0x38 and 0x40.
  const auto fp8 = run32("cvt.rn.satfinite.e4m3x2.f32 %rs1, %r1, %r2; cvt.u32.u16 %r0, %rs1;",
                         asBits({2.0f, 1e9f}), asBits({1.0f, -0.4375f}));
  CHECK(fp8[0] == 0x4038);
  CHECK(fp8[1] == 0x7eae);
  const auto back = run32("cvt.u16.u32 %rs1, %r1; cvt.rn.f16x2.e4m3x2 %r0, %rs1;", {0x4038u, 0x7eaeu});
  CHECK(f16Value(back[0] & 0xffff) == 1.0);
  CHECK(f16Value(back[0] >> 16) == 2.0);
  CHECK(f16Value(back[1] & 0xffff) == -0.4375);
  CHECK(f16Value(back[1] >> 16) == 448.0);
}

TEST_CASE("arithmetic on 16-bit floats") {
  const std::vector<float> x = {1.0f, 2.5f, -3.0f, 0.125f}, y = {3.0f, -1.5f, 0.5f, 100.0f};
  std::vector<uint32_t> a, b;
  for (size_t i = 0; i < x.size(); ++i) {
    a.push_back(nearestBf16(x[i]) | nearestBf16(y[i]) << 16);
    b.push_back(nearestBf16(y[i]) | nearestBf16(x[i]) << 16);
  }
  const auto sum = run32("add.rn.bf16x2 %r0, %r1, %r2;", a, b),
             product = run32("mul.rn.bf16x2 %r0, %r1, %r2;", a, b);
  const auto fused = run32("fma.rn.bf16x2 %r0, %r1, %r2, %r1;", a, b);
  const auto relu = run32("fma.rn.relu.bf16x2 %r0, %r1, %r2, %r1;", a, b);
  const auto least = run32("min.bf16x2 %r0, %r1, %r2;", a, b), minus = run32("neg.bf16x2 %r0, %r1;", a);
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(sum[i] == nearestBf16(x[i] + y[i]) * 0x10001u);
    CHECK(product[i] == nearestBf16(x[i] * y[i]) * 0x10001u);
    CHECK((fused[i] & 0xffff) == nearestBf16(x[i] * y[i] + x[i]));
    CHECK((relu[i] & 0xffff) == (x[i] * y[i] + x[i] < 0 ? 0u : nearestBf16(x[i] * y[i] + x[i])));
    CHECK(least[i] == nearestBf16(std::min(x[i], y[i])) * 0x10001u);
    CHECK((minus[i] & 0xffff) == nearestBf16(-x[i]));
  }
  const auto half =
      run32("cvt.rn.f16.f32 %rs1, %r1; cvt.rn.f16.f32 %rs2, %r2; fma.rn.f16 %rs3, %rs1, %rs2, %rs1;\n"
            "setp.lt.f16 %p1, %rs1, %rs2; cvt.u32.u16 %r0, %rs3; @%p1 or.b32 %r0, %r0, 0x10000;",
            asBits(x), asBits(y));
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK((half[i] & 0xffff) == nearestF16(x[i] * y[i] + x[i]));
    CHECK(half[i] >> 16 == uint32_t(x[i] < y[i]));
  }
}
