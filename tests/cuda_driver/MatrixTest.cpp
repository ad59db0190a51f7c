// mma.sync, ldmatrix, stmatrix, cp.async and wgmma against plain matrix products.
#include "tests/cuda_driver/Ptx.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

using namespace smelt::tests;

namespace {

/// Small integers are exact in bf16, f16 and tf32, and so are their sums in f32.
float element(uint32_t seed, uint32_t i) {
  return float(int((i * 2654435761u + seed * 40503u) >> 20) % 9 - 4);
}

uint16_t bf16(float v) { return static_cast<uint16_t>(bits(v) >> 16); }
uint16_t f16(float v) {
  const uint32_t b = bits(v);
  return v == 0 ? 0 : static_cast<uint16_t>((b >> 16 & 0x8000) | ((b >> 13 & 0x3ffff) - (112u << 10)));
}

std::vector<float> product(const std::vector<float> &a, const std::vector<float> &b, uint32_t m, uint32_t n,
                           uint32_t k) {
  std::vector<float> c(m * n, 0.0f);
  for (uint32_t i = 0; i < m; ++i) {
    for (uint32_t j = 0; j < n; ++j) {
      for (uint32_t x = 0; x < k; ++x) {
        c[i * n + j] += a[i * k + x] * b[x * n + j];
      }
    }
  }
  return c;
}

std::vector<float> matrix(uint32_t seed, uint32_t rows, uint32_t columns) {
  std::vector<float> values(rows * columns);
  for (uint32_t i = 0; i < values.size(); ++i) {
    values[i] = element(seed, i);
  }
  return values;
}

/// One mma with fragments loaded by the formulas of the PTX ISA: A row-major, B stored as columns.
void checkMma(const std::string &shape, const std::string &type, uint32_t k, uint32_t bytes,
              const std::function<uint32_t(float)> &encode) {
  INFO(shape << " " << type);
  const uint32_t per = 4 / bytes; // elements a register
  const auto a = matrix(1, 16, k), b = matrix(2, k, 8);
  const uint32_t na = 16 * k / 32 / per, nb = na / 2;
  std::vector<uint32_t> fragments(32 * (na + nb));
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, q = lane % 4;
    for (uint32_t r = 0; r < na; ++r) {
      uint32_t word = 0;
      for (uint32_t h = 0; h < per; ++h) {
        const uint32_t row = g + (r % 2 ? 8 : 0), column = q * per + h + (r / 2) * 4 * per;
        word |= encode(a[row * k + column]) << (16 * h);
      }
      fragments[r * 32 + lane] = word;
    }
    for (uint32_t r = 0; r < nb; ++r) {
      uint32_t word = 0;
      for (uint32_t h = 0; h < per; ++h) {
        word |= encode(b[(q * per + h + r * 4 * per) * 8 + g]) << (16 * h);
      }
      fragments[(na + r) * 32 + lane] = word;
    }
  }
  std::string code = "ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; mul.wide.u32 "
                     "%rd3, %r1, 4; add.s64 %rd2, %rd2, %rd3;\n";
  std::string ra, rb;
  for (uint32_t r = 0; r < na + nb; ++r) {
    code += "ld.global.b32 %r" + std::to_string(10 + r) + ", [%rd2+" + std::to_string(128 * r) + "];\n";
    (r < na ? ra : rb) += std::string((r < na ? ra : rb).empty() ? "" : ", ") + "%r" + std::to_string(10 + r);
  }
  code +=
      "mov.f32 %f1, 0f3F800000; mma.sync.aligned." + shape + ".row.col.f32." + type + "." + type +
      ".f32 {%f4, %f5, %f6, %f7}, {" + ra + "}, {" + rb + "}, {%f1, %f1, %f1, %f1};\n" +
      "mul.wide.u32 %rd4, %r1, 16; add.s64 %rd1, %rd1, %rd4; st.global.v4.f32 [%rd1], {%f4, %f5, %f6, %f7};";
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(code, 2));
  const DeviceBuffer in = device.upload(fragments), out = device.allocate(32 * 16);
  module.run("k", smelt::tests::shape(1, 32), {out, in});
  const auto got = out.read<float>();
  const auto want = product(a, b, 16, 8, k);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t r = 0; r < 4; ++r) {
      CHECK(got[lane * 4 + r] == want[(lane / 4 + (r / 2) * 8) * 8 + lane % 4 * 2 + r % 2] + 1);
    }
  }
}

} // namespace

TEST_CASE("mma.sync against plain products") {
  checkMma("m16n8k16", "bf16", 16, 2, [](float v) { return uint32_t(bf16(v)); });
  checkMma("m16n8k8", "bf16", 8, 2, [](float v) { return uint32_t(bf16(v)); });
  checkMma("m16n8k16", "f16", 16, 2, [](float v) { return uint32_t(f16(v)); });
  checkMma("m16n8k8", "tf32", 8, 4, [](float v) { return bits(v); });
  checkMma("m16n8k4", "tf32", 4, 4, [](float v) { return bits(v); });
}

TEST_CASE("ldmatrix and stmatrix move 8x8 tiles") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(
      ".shared .align 128 .b8 in[512]; .shared .align 128 .b8 out[512];\n"
      "ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 "
      "%r3, in; add.u32 %r3, %r3, %r2;\n"
      "cvt.u64.u32 %rd3, %r2; add.s64 %rd2, %rd2, %rd3; cp.async.cg.shared.global [%r3], [%rd2], 16; "
      "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;\n"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3]; "
      "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r8, %r9}, [%r3];\n"
      "mov.u32 %r10, out; add.u32 %r10, %r10, %r2; stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r10], "
      "{%r4, %r5, %r6, %r7}; bar.sync 0;\n"
      "ld.shared.v4.b32 {%r11, %r12, %r13, %r14}, [%r10]; movmatrix.sync.aligned.m8n8.trans.b16 %r15, %r4;\n"
      "mul.wide.u32 %rd4, %r1, 48; add.s64 %rd1, %rd1, %rd4; st.global.v4.b32 [%rd1], {%r4, %r5, %r8, %r9};\n"
      "st.global.v4.b32 [%rd1+16], {%r11, %r12, %r13, %r14}; st.global.v2.b32 [%rd1+32], {%r15, %r7};",
      2));
  std::vector<uint16_t> tiles(256);
  for (size_t i = 0; i < tiles.size(); ++i) {
    tiles[i] = static_cast<uint16_t>(i);
  }
  const DeviceBuffer in = device.upload(tiles), out = device.allocate(32 * 48);
  module.run("k", shape(1, 32), {out, in});
  const auto got = out.read<uint32_t>();
  const auto at = [&](uint32_t m, uint32_t row, uint32_t column) {
    return uint32_t(tiles[m * 64 + row * 8 + column]);
  };
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, q = lane % 4 * 2;
    CHECK(got[lane * 12] == (at(0, g, q) | at(0, g, q + 1) << 16));
    CHECK(got[lane * 12 + 1] == (at(1, g, q) | at(1, g, q + 1) << 16));
    CHECK(got[lane * 12 + 2] == (at(0, q, g) | at(0, q + 1, g) << 16));
    CHECK(got[lane * 12 + 3] == (at(1, q, g) | at(1, q + 1, g) << 16));
    for (uint32_t i = 0; i < 4; ++i) { // row `lane % 8` of tile `lane / 8`, transposed
      CHECK(got[lane * 12 + 4 + i] ==
            (at(lane / 8, 2 * i, lane % 8) | at(lane / 8, 2 * i + 1, lane % 8) << 16));
    }
    CHECK(got[lane * 12 + 8] == (at(0, q, g) | at(0, q + 1, g) << 16));
    CHECK(got[lane * 12 + 9] == (at(3, g, q) | at(3, g, q + 1) << 16));
  }
}

TEST_CASE("cp.async fills with zeros behind the source size") {
  TestDevice &device = TestDevice::get();
  const TestModule module =
      device.load(kernelText(".shared .align 16 .b8 box[512]; ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, "
                             "[p1]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4;\n"
                             "mov.u32 %r3, box; add.u32 %r3, %r3, %r2; and.b32 %r4, %r1, 15; add.u32 %r4, "
                             "%r4, 1; cp.async.ca.shared.global [%r3], [%rd2], 16, %r4;\n"
                             "cp.async.wait_all; ld.shared.v2.b64 {%rd3, %rd4}, [%r3]; cvt.u64.u32 %rd5, "
                             "%r2; add.s64 %rd1, %rd1, %rd5; st.global.v2.b64 [%rd1], {%rd3, %rd4};",
                             2));
  const DeviceBuffer in = device.upload(std::vector<uint8_t>(16, 9)), out = device.allocate(512);
  module.run("k", shape(1, 32), {out, in});
  const auto got = out.read<uint8_t>();
  for (uint32_t i = 0; i < 512; ++i) {
    CHECK(int(got[i]) == (i % 16 < i / 16 % 16 + 1 ? 9 : 0));
  }
}

namespace {

/// wgmma m64nNk16 of bf16 with both operands in shared memory, laid out as `layout` says (byte offset of an
/// element).
struct Layout {
  std::string name;
  uint32_t swizzle; ///< field of the descriptor
  bool transposed;
  uint32_t leading, stride;
  std::function<uint32_t(uint32_t, uint32_t)> offset; ///< (row of A or column of B, k)
};

uint32_t swizzled(uint32_t at, uint32_t width) { return at ^ (at >> 7 & (width / 16 - 1)) << 4; }

void checkWgmma(const Layout &layout, uint32_t n) {
  INFO(layout.name << " n" << n);
  constexpr uint32_t kHalf = 32768;
  const auto a = matrix(3, 64, 16), b = matrix(4, 16, n);
  std::vector<uint16_t> bytes(kHalf, 0);
  for (uint32_t k = 0; k < 16; ++k) {
    for (uint32_t i = 0; i < 64; ++i) {
      bytes[layout.offset(i, k) / 2] = bf16(a[i * 16 + k]);
    }
    for (uint32_t j = 0; j < n; ++j) {
      bytes[(kHalf + layout.offset(j, k)) / 2] = bf16(b[k * n + j]);
    }
  }
  const auto descriptor = [&](uint32_t start) {
    return uint64_t(start >> 4) | uint64_t(layout.leading >> 4) << 16 | uint64_t(layout.stride >> 4) << 32 |
           uint64_t(layout.swizzle) << 62;
  };
  std::string accumulators, zero, store;
  for (uint32_t r = 0; r < n / 2; ++r) {
    accumulators += std::string(r ? ", " : "") + "%acc" + std::to_string(r);
    zero += "mov.f32 %acc" + std::to_string(r) + ", 0f40000000; ";
    store += "st.global.f32 [%rd1+" + std::to_string(512 * r) + "], %acc" + std::to_string(r) + ";\n";
  }
  const std::string transpose = layout.transposed ? "1" : "0";
  const std::string code = ".reg .f32 %acc<128>; mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p0]; ld.param.u64 "
                           "%rd2, [p1]; mov.u32 %r2, smem; setp.ne.u32 %p1, %r1, 0;\n"
                           "@%p1 bra WAIT; mbarrier.init.shared.b64 [smem+65536], 1; "
                           "fence.mbarrier_init.release.cluster; WAIT: bar.sync 0; @%p1 bra GO;\n"
                           "mbarrier.arrive.expect_tx.shared.b64 _, [smem+65536], 65536;\n"
                           "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], "
                           "65536, [smem+65536];\n"
                           "GO: mbarrier.try_wait.parity.shared.b64 %p2, [smem+65536], 0; @!%p2 bra GO;\n" +
                           zero +
                           "\n"
                           "wgmma.fence.sync.aligned; setp.ne.u32 %p3, %r1, 100000;\n"
                           "{ wgmma.mma_async.sync.aligned.m64n" +
                           std::to_string(n) + "k16.f32.bf16.bf16 {" + accumulators + "}, " +
                           std::to_string(descriptor(0)) + ", " + std::to_string(descriptor(kHalf)) +
                           ", %p3, 1, 1, " + transpose + ", " + transpose +
                           "; }\n"
                           "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\nmul.wide.u32 "
                           "%rd3, %r1, 4; add.s64 %rd1, %rd1, %rd3;\n" +
                           store;
  TestDevice &device = TestDevice::get();
  const TestModule module =
      device.load(kernelText(code, 2, ".reqntid 128", "sm_90a", ".extern .shared .align 1024 .b8 smem[];"));
  const DeviceBuffer in = device.upload(bytes), out = device.allocate(n / 2 * 512);
  module.run("k", shape(1, 128, 65552), {out, in});
  const auto got = out.read<float>();
  const auto want = product(a, b, 64, n, 16);
  for (uint32_t t = 0; t < 128; ++t) {
    for (uint32_t r = 0; r < n / 2; ++r) {
      const uint32_t row = t / 32 * 16 + t % 32 / 4 + (r / 2 % 2) * 8, column = r / 4 * 8 + t % 4 * 2 + r % 2;
      CHECK(got[r * 128 + t] == want[row * n + column] + 2);
    }
  }
}

} // namespace

TEST_CASE("wgmma with every layout of its operands") {
  // Core matrices of 8 rows by 16 bytes, side by side along K.
  checkWgmma({"no swizzle", 0, false, 128, 256,
              [](uint32_t r, uint32_t k) { return r / 8 * 256 + k / 8 * 128 + r % 8 * 16 + k % 8 * 2; }},
             16);
  checkWgmma({"no swizzle", 0, false, 4096, 128,
              [](uint32_t r, uint32_t k) { return r / 8 * 128 + k / 8 * 4096 + r % 8 * 16 + k % 8 * 2; }},
             64);
  for (const auto &[width, field] : {std::pair(128u, 1u), std::pair(64u, 2u), std::pair(32u, 3u)}) {
    const uint32_t w = width;
    checkWgmma({"K-major, swizzle " + std::to_string(w), field, false, 16, 8 * w,
                [w](uint32_t r, uint32_t k) { return swizzled(r / 8 * 8 * w + r % 8 * w + k * 2, w); }},
               32);
    // Along M or N: w bytes of it, 8 values of k, then the next 8 (stride), then the next w bytes (leading).
    checkWgmma({"MN-major, swizzle " + std::to_string(w), field, true, 16 * w, 8 * w,
                [w](uint32_t r, uint32_t k) {
                  return swizzled(r * 2 / w * 16 * w + r * 2 % w + k / 8 * 8 * w + k % 8 * w, w);
                }},
               128);
  }
}
