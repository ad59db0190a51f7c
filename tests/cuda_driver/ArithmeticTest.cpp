// Integer and float instructions against the host's arithmetic.
#include "tests/cuda_driver/Ptx.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

using namespace smelt::tests;

namespace {

const std::vector<uint32_t> kA = {0,          1,          2,          7,          31,         32,
                                  33,         100,        0x7fffffff, 0x80000000, 0x80000001, 0xffffffff,
                                  0xfffffffe, 0x12345678, 0xdeadbeef, 0x00ff00ff};
const std::vector<uint32_t> kB = {3, 0xffffffff, 5, 2,          4, 8,      0x10, 0x7fffffff,
                                  2, 0xffffffff, 3, 0xffffffff, 9, 0x1234, 13,   0x0101};
const std::vector<uint32_t> kC = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

void expect32(const std::string &code, const std::function<uint32_t(uint32_t, uint32_t, uint32_t)> &want) {
  INFO(code);
  const auto got = run32(code, kA, kB, kC);
  for (size_t i = 0; i < kA.size(); ++i) {
    INFO(i << ": " << std::hex << kA[i] << ", " << kB[i] << ", " << kC[i]);
    CHECK(got[i] == want(kA[i], kB[i], kC[i]));
  }
}

int32_t s(uint32_t v) { return static_cast<int32_t>(v); }

const std::vector<float> kF = {0.0f,      -0.0f, 1.0f, -1.5f,    3.25f,  1e-20f,   -1e20f, INFINITY,
                               -INFINITY, NAN,   0.1f, 123.456f, 1e-39f, 65504.0f, -7.75f, 2.5f};
const std::vector<float> kG = {1.0f,     2.0f, -3.0f, 0.5f,   0.1f, 1e-20f, 1e20f,  1.0f,
                               INFINITY, 1.0f, NAN,   0.001f, 1.0f, 2.0f,   -0.25f, 3.0f};

void expectF(const std::string &code, const std::function<float(float, float)> &want, float tolerance = 0) {
  INFO(code);
  std::vector<uint32_t> a, b;
  for (size_t i = 0; i < kF.size(); ++i) {
    a.push_back(bits(kF[i]));
    b.push_back(bits(kG[i]));
  }
  const auto got = run32(code, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const float expected = want(kF[i], kG[i]), value = real(got[i]);
    INFO(i << ": " << kF[i] << ", " << kG[i] << " -> " << value << ", expected " << expected);
    if (std::isnan(expected)) {
      CHECK(std::isnan(value));
    } else if (tolerance == 0 || std::isinf(expected)) {
      CHECK(got[i] == bits(expected));
    } else {
      CHECK(std::fabs(value - expected) <= tolerance * std::fabs(expected));
    }
  }
}

} // namespace

TEST_CASE("integer arithmetic") {
  expect32("add.s32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return a + b; });
  expect32("sub.s32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return a - b; });
  expect32("mul.lo.s32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return a * b; });
  expect32("mul.hi.u32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return uint32_t(uint64_t(a) * b >> 32); });
  expect32("mul.hi.s32 %r0, %r1, %r2;",
           [](auto a, auto b, auto) { return uint32_t(int64_t(s(a)) * s(b) >> 32); });
  expect32("mad.lo.s32 %r0, %r1, %r2, %r3;", [](auto a, auto b, auto c) { return a * b + c; });
  expect32("div.u32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return a / b; });
  expect32("div.s32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return uint32_t(int64_t(s(a)) / s(b)); });
  expect32("rem.u32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return a % b; });
  expect32("rem.s32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return uint32_t(int64_t(s(a)) % s(b)); });
  expect32("min.s32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return uint32_t(std::min(s(a), s(b))); });
  expect32("max.u32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return std::max(a, b); });
  expect32("abs.s32 %r0, %r1;", [](auto a, auto, auto) { return s(a) < 0 ? 0 - a : a; });
  expect32("neg.s32 %r0, %r1;", [](auto a, auto, auto) { return 0 - a; });
  expect32("add.sat.s32 %r0, %r1, %r2;", [](auto a, auto b, auto) {
    return uint32_t(int32_t(std::clamp<int64_t>(int64_t(s(a)) + s(b), INT32_MIN, INT32_MAX)));
  });
  expect32("add.s32 %r0, %r1, -5;", [](auto a, auto, auto) { return a - 5; });
  expect32("mul.wide.s32 %rd1, %r1, %r2; shr.u64 %rd1, %rd1, 8; cvt.u32.u64 %r0, %rd1;",
           [](auto a, auto b, auto) { return uint32_t(uint64_t(int64_t(s(a)) * s(b)) >> 8); });
  expect32("cvt.u16.u32 %rs1, %r1; cvt.u16.u32 %rs2, %r2; mul.wide.u16 %r0, %rs1, %rs2;",
           [](auto a, auto b, auto) { return (a & 0xffff) * (b & 0xffff); });
  expect32("sad.u32 %r0, %r1, %r2, %r3;", [](auto a, auto b, auto c) { return c + (a > b ? a - b : b - a); });
}

TEST_CASE("relu, dot products, packed floats") {
  expect32("max.relu.s32 %r0, %r1, %r2;",
           [](auto a, auto b, auto) { return uint32_t(std::max(0, std::max(s(a), s(b)))); });
  expect32("min.relu.s32 %r0, %r1, %r2;",
           [](auto a, auto b, auto) { return uint32_t(std::max(0, std::min(s(a), s(b)))); });
  expect32("dp4a.s32.u32 %r0, %r1, %r2, %r3;", [](auto a, auto b, auto c) {
    for (int i = 0; i < 4; ++i) {
      c += uint32_t(int8_t(a >> (8 * i)) * int32_t(b >> (8 * i) & 255));
    }
    return c;
  });
  const auto pairs = run64("fma.rn.f32x2 %rd0, %rd1, %rd2, %rd1;", {uint64_t(bits(1.5f)) << 32 | bits(-2.0f)},
                           {uint64_t(bits(3.0f)) << 32 | bits(0.25f)});
  CHECK(pairs[0] == (uint64_t(bits(6.0f)) << 32 | bits(-2.5f)));
}

TEST_CASE("64-bit integers and carries") {
  const std::vector<uint64_t> a = {0, ~0ull, 0x8000000000000000ull, 0x123456789abcdef0ull};
  const std::vector<uint64_t> b = {1, 2, ~0ull, 0xfedcba9876543210ull};
  const auto hi = run64("mul.hi.u64 %rd0, %rd1, %rd2;", a, b);
  const auto bit =
      run64("popc.b64 %r1, %rd1; clz.b64 %r2, %rd1; add.u32 %r1, %r1, %r2; cvt.u64.u32 %rd0, %r1;", a);
  // A 64-bit sum from two 32-bit ones.
  const auto sum = run64("mov.b64 {%r1, %r2}, %rd1; mov.b64 {%r3, %r4}, %rd2; add.cc.u32 %r5, %r1, %r3;\n"
                         "addc.u32 %r6, %r2, %r4; mov.b64 %rd0, {%r5, %r6};",
                         a, b);
  const auto difference =
      run64("mov.b64 {%r1, %r2}, %rd1; mov.b64 {%r3, %r4}, %rd2; sub.cc.u32 %r5, %r1, %r3;\n"
            "subc.u32 %r6, %r2, %r4; mov.b64 %rd0, {%r5, %r6};",
            a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(hi[i] == uint64_t((unsigned __int128)(a[i]) * b[i] >> 64));
    CHECK(bit[i] == uint64_t(std::popcount(a[i]) + std::countl_zero(a[i])));
    CHECK(sum[i] == a[i] + b[i]);
    CHECK(difference[i] == a[i] - b[i]);
  }
}

TEST_CASE("bits and shifts") {
  expect32("and.b32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return a & b; });
  expect32("xor.b32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return a ^ b; });
  expect32("not.b32 %r0, %r1;", [](auto a, auto, auto) { return ~a; });
  expect32("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", [](auto a, auto b, auto c) { return a ^ b ^ c; });
  expect32("lop3.b32 %r0, %r1, %r2, %r3, 0xca;", [](auto a, auto b, auto c) { return (a & b) | (~a & c); });
  expect32("shl.b32 %r0, %r2, %r1;", [](auto a, auto b, auto) { return a > 31 ? 0 : b << a; });
  expect32("shr.u32 %r0, %r2, %r1;", [](auto a, auto b, auto) { return a > 31 ? 0 : b >> a; });
  expect32("shr.s32 %r0, %r2, %r1;", [](auto a, auto b, auto) { return uint32_t(s(b) >> std::min(a, 31u)); });
  expect32("shf.l.wrap.b32 %r0, %r1, %r2, %r3;",
           [](auto a, auto b, auto c) { return uint32_t((uint64_t(b) << 32 | a) << (c & 31) >> 32); });
  expect32("shf.r.clamp.b32 %r0, %r1, %r2, %r3;",
           [](auto a, auto b, auto c) { return uint32_t((uint64_t(b) << 32 | a) >> std::min(c, 32u)); });
  expect32("bfe.u32 %r0, %r1, 4, 9;", [](auto a, auto, auto) { return a >> 4 & 511; });
  expect32("bfe.s32 %r0, %r1, 4, 9;", [](auto a, auto, auto) { return uint32_t(s(a << 19) >> 23); });
  expect32("bfi.b32 %r0, %r1, %r2, 5, 7;",
           [](auto a, auto b, auto) { return (b & ~(127u << 5)) | (a & 127) << 5; });
  expect32("prmt.b32 %r0, %r1, %r2, 0x5410;", [](auto a, auto b, auto) { return (a & 0xffff) | b << 16; });
  expect32("prmt.b32 %r0, %r1, 0, 0x0123;", [](auto a, auto, auto) { return __builtin_bswap32(a); });
  expect32("popc.b32 %r0, %r1;", [](auto a, auto, auto) { return uint32_t(std::popcount(a)); });
  expect32("clz.b32 %r0, %r1;", [](auto a, auto, auto) { return uint32_t(std::countl_zero(a)); });
  expect32("bfind.u32 %r0, %r1;", [](auto a, auto, auto) { return uint32_t(31 - std::countl_zero(a)); });
  expect32("brev.b32 %r0, %r1;", [](auto a, auto, auto) { return __builtin_bitreverse32(a); });
}

TEST_CASE("comparisons and selections") {
  expect32("setp.lt.s32 %p1, %r1, %r2; selp.b32 %r0, %r3, 99, %p1;",
           [](auto a, auto b, auto c) { return s(a) < s(b) ? c : 99; });
  expect32("setp.lt.u32 %p1|%p2, %r1, %r2; selp.b32 %r0, 1, 0, %p2;",
           [](auto a, auto b, auto) { return a < b ? 0u : 1u; });
  expect32("setp.gt.u32 %p3, %r3, 8; setp.ne.and.b32 %p1, %r1, 7, !%p3; selp.b32 %r0, 1, 0, %p1;",
           [](auto a, auto, auto c) { return uint32_t(a != 7 && c <= 8); });
  expect32("set.ge.u32.s32 %r0, %r1, %r2;", [](auto a, auto b, auto) { return s(a) >= s(b) ? ~0u : 0u; });
  expect32("setp.eq.b32 %p1, %r3, 3; not.pred %p2, %p1; or.pred %p3, %p1, %p2; xor.pred %p4, %p3, %p1;\n"
           "@%p4 bra L; mov.u32 %r0, 5; bra.uni M; L: mov.u32 %r0, 6; M:",
           [](auto, auto, auto c) { return c == 3 ? 5u : 6u; });
  expectF("setp.lt.f32 %p1, %r1, %r2; selp.f32 %r0, 0f3F800000, 0f00000000, %p1;",
          [](float a, float b) { return a < b ? 1.0f : 0.0f; });
  expectF("setp.geu.f32 %p1, %r1, %r2; selp.f32 %r0, 0f3F800000, 0f00000000, %p1;",
          [](float a, float b) { return !(a < b) ? 1.0f : 0.0f; });
  expectF("setp.neu.f32 %p1, %r1, %r1; selp.f32 %r0, 0f3F800000, 0f00000000, %p1;",
          [](float a, float) { return a != a ? 1.0f : 0.0f; });
  expectF("setp.nan.f32 %p1, %r1, %r2; selp.f32 %r0, 0f3F800000, 0f00000000, %p1;",
          [](float a, float b) { return std::isnan(a) || std::isnan(b) ? 1.0f : 0.0f; });
}

TEST_CASE("f32 arithmetic") {
  const auto flush = [](float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; };
  expectF("add.f32 %r0, %r1, %r2;", [](float a, float b) { return a + b; });
  expectF("sub.rn.f32 %r0, %r1, %r2;", [](float a, float b) { return a - b; });
  expectF("mul.rn.f32 %r0, %r1, %r2;", [](float a, float b) { return a * b; });
  expectF("mul.rn.ftz.f32 %r0, %r1, %r2;", [&](float a, float b) { return flush(flush(a) * flush(b)); });
  expectF("fma.rn.f32 %r0, %r1, %r2, %r2;", [](float a, float b) { return std::fma(a, b, b); });
  expectF("add.sat.f32 %r0, %r1, %r2;",
          [](float a, float b) { return a + b > 0 ? std::min(a + b, 1.0f) : 0.0f; });
  expectF("min.f32 %r0, %r1, %r2;", [](float a, float b) { return std::fmin(a, b); });
  expectF("max.f32 %r0, %r1, %r2;", [](float a, float b) { return std::fmax(a, b); });
  expectF("max.NaN.f32 %r0, %r1, %r2;",
          [](float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b); });
  expectF("abs.f32 %r0, %r1;", [](float a, float) { return std::fabs(a); });
  expectF("neg.f32 %r0, %r1;", [](float a, float) { return -a; });
  expectF("copysign.f32 %r0, %r1, %r2;", [](float a, float b) { return std::copysign(b, a); });
  expectF("div.rn.f32 %r0, %r1, %r2;", [](float a, float b) { return a / b; });
  expectF("div.approx.f32 %r0, %r1, %r2;", [](float a, float b) { return a / b; }, 1e-6f);
  expectF("rcp.approx.f32 %r0, %r1;", [](float a, float) { return 1 / a; }, 1e-6f);
  expectF("sqrt.rn.f32 %r0, %r1;", [](float a, float) { return std::sqrt(a); });
  expectF(
      "abs.f32 %r0, %r1; rsqrt.approx.f32 %r0, %r0;",
      [](float a, float) { return 1 / std::sqrt(std::fabs(a)); }, 1e-6f);
  expectF("ex2.approx.f32 %r0, %r1;", [](float a, float) { return std::exp2(a); }, 1e-6f);
  expectF(
      "abs.f32 %r0, %r1; lg2.approx.f32 %r0, %r0;", [](float a, float) { return std::log2(std::fabs(a)); },
      1e-6f);
  expectF("tanh.approx.f32 %r0, %r1;", [](float a, float) { return std::tanh(a); }, 1e-6f);
}

TEST_CASE("rounding modes of f32") {
  const std::vector<uint32_t> a = {bits(1.0f), bits(-1.0f), bits(1.0f / 3), bits(16777216.0f)};
  const std::vector<uint32_t> b = {bits(1e-10f), bits(-1e-10f), bits(3.1f), bits(1.0f)};
  const auto zero = run32("add.rz.f32 %r0, %r1, %r2;", a, b);
  const auto down = run32("add.rm.f32 %r0, %r1, %r2;", a, b);
  const auto up = run32("add.rp.f32 %r0, %r1, %r2;", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const double exact = double(real(a[i])) + double(real(b[i]));
    CHECK(double(real(down[i])) <= exact);
    CHECK(double(real(up[i])) >= exact);
    CHECK(std::nextafter(real(down[i]), INFINITY) >= real(up[i]));
    CHECK(zero[i] == (exact >= 0 ? down[i] : up[i]));
  }
}

TEST_CASE("f64 arithmetic") {
  const std::vector<uint64_t> a = {bits64(1.5), bits64(-2.25), bits64(1e300)},
                              b = {bits64(3), bits64(0.1), bits64(1e10)};
  const auto fused = run64("fma.rn.f64 %rd0, %rd1, %rd2, %rd2;", a, b);
  const auto divided = run64("div.rn.f64 %rd0, %rd1, %rd2;", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = std::bit_cast<double>(a[i]), y = std::bit_cast<double>(b[i]);
    CHECK(fused[i] == bits64(std::fma(x, y, y)));
    CHECK(divided[i] == bits64(x / y));
  }
}
