// Loads and stores of all widths and spaces, atomics, module variables.
#include "tests/cuda_driver/Ptx.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace smelt::tests;

TEST_CASE("loads and stores of all widths") {
  TestDevice &device = TestDevice::get();
  const TestModule module =
      device.load(kernelText("ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];\n"
                             "ld.global.s8 %r1, [%rd2+3]; ld.global.u8 %rs1, [%rd2+3]; ld.global.s16 %r2, "
                             "[%rd2+2]; ld.global.nc.v4.u16 {%rs2, %rs3, %rs4, %rs5}, [%rd2];\n"
                             "ld.global.nc.L1::no_allocate.L2::128B.v2.b64 {%rd3, %rd4}, [%rd2]; "
                             "ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%rd2];\n"
                             "st.global.b32 [%rd1], %r1; st.global.u16 [%rd1+4], %rs1; st.global.b8 "
                             "[%rd1+6], %rs1; st.global.b8 [%rd1+7], %r2;\n"
                             "st.global.b32 [%rd1+8], %r2; st.global.v4.u16 [%rd1+16], {%rs2, %rs3, %rs4, "
                             "%rs5}; st.global.v2.b64 [%rd1+32], {%rd4, %rd3};\n"
                             "st.global.cs.v4.b32 [%rd1+48], {%r6, %r5, %r4, %r3};",
                             2));
  std::vector<uint8_t> in(16);
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<uint8_t>(0x80 + 7 * i);
  }
  const DeviceBuffer from = device.upload(in);
  DeviceBuffer out = device.upload(std::vector<uint8_t>(64, 0));
  module.run("k", shape(1, 1), {out, from});
  const auto got = out.read<uint8_t>();
  const auto word = [](const std::vector<uint8_t> &v, size_t at) {
    uint32_t w;
    std::memcpy(&w, &v[at], 4);
    return w;
  };
  CHECK(word(got, 0) == uint32_t(int32_t(int8_t(in[3]))));
  CHECK((got[4] | got[5] << 8) == in[3]);
  CHECK(got[6] == in[3]);
  CHECK(got[7] == in[2]);
  CHECK(word(got, 8) == uint32_t(int32_t(int16_t(in[2] | in[3] << 8))));
  CHECK(std::equal(in.begin(), in.begin() + 8, got.begin() + 16));
  CHECK(std::equal(in.begin() + 8, in.end(), got.begin() + 32));
  CHECK(std::equal(in.begin(), in.begin() + 8, got.begin() + 40));
  CHECK(word(got, 48) == word(in, 12));
  CHECK(word(got, 60) == word(in, 0));
}

TEST_CASE("shared, local, constant and generic addresses") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(
      ".local .align 8 .b8 depot[16]; .shared .align 16 .b8 tile[128]; .reg .b64 %SP, %SPL;\n"
      "mov.b64 %SPL, depot; cvta.local.u64 %SP, %SPL; ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x;\n"
      "add.u32 %r2, %r1, 100; st.local.u32 [%SPL+4], %r2; ld.u32 %r3, [%SP+4];\n"
      "mov.u32 %r4, tile; shl.b32 %r5, %r1, 2; add.u32 %r6, %r4, %r5; st.shared.u32 [%r6], %r3; bar.sync 0;\n"
      "xor.b32 %r7, %r5, 124; mov.u64 %rd2, tile; cvta.shared.u64 %rd2, %rd2; cvt.u64.u32 %rd3, %r7; add.s64 "
      "%rd2, %rd2, %rd3; ld.u32 %r8, [%rd2];\n"
      "cvta.to.shared.u64 %rd4, %rd2; cvt.u32.u64 %r9, %rd4; ld.shared.u32 %r10, [%r9]; add.u32 %r8, %r8, "
      "%r10;\n"
      "and.b32 %r11, %r1, 3; mul.wide.u32 %rd5, %r11, 4; mov.u64 %rd6, table; add.s64 %rd6, %rd6, %rd5; "
      "ld.const.u32 %r12, [%rd6]; ld.const.u32 %r13, [table+12];\n"
      "add.u32 %r8, %r8, %r12; add.u32 %r8, %r8, %r13; mul.wide.u32 %rd7, %r1, 4; add.s64 %rd1, %rd1, %rd7; "
      "st.global.u32 [%rd1], %r8;",
      1, "", "sm_90", ".const .align 4 .u32 table[4] = {1000, 2000, 3000, 4000};"));
  const DeviceBuffer out = device.allocate(128);
  module.run("k", shape(1, 32), {out});
  const auto got = out.read<uint32_t>();
  for (uint32_t i = 0; i < 32; ++i) {
    CHECK(got[i] == 2 * (100 + (i ^ 31)) + 1000 * (i % 4 + 1) + 4000);
  }
}

TEST_CASE("dynamic shared memory lies behind the static variables") {
  TestDevice &device = TestDevice::get();
  const TestModule module =
      device.load(kernelText(".shared .align 4 .b8 fixed[4]; ld.param.u64 %rd1, [p0]; mov.u32 %r1, fixed; "
                             "mov.u32 %r2, dynamic; mov.u32 %r3, %dynamic_smem_size;\n"
                             "st.shared.u32 [fixed], %r1; st.shared.u32 [dynamic+124], %r2; ld.shared.u32 "
                             "%r4, [fixed]; ld.shared.u32 %r5, [dynamic+124];\n"
                             "st.global.v4.u32 [%rd1], {%r4, %r5, %r3, %r2};",
                             1, "", "sm_90", ".extern .shared .align 128 .b8 dynamic[];"));
  const DeviceBuffer out = device.allocate(16);
  module.run("k", shape(1, 1, 128), {out});
  const auto got = out.read<uint32_t>();
  CHECK(got[1] >= got[0] + 4);
  CHECK(got[1] % 128 == 0);
  CHECK(got[2] == 128);
}

TEST_CASE("atomics") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(
      "ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r9, %ctaid.x; cvt.rn.f32.u32 %f1, %r1;\n"
      "atom.global.add.u32 %r2, [%rd1], 1; red.global.max.s32 [%rd1+4], %r1; red.relaxed.gpu.global.add.f32 "
      "[%rd1+8], %f1;\n"
      "atom.global.and.b32 %r3, [%rd1+12], 0xfffffffe; red.global.or.b32 [%rd1+16], 256; atom.global.inc.u32 "
      "%r4, [%rd1+20], 9;\n"
      "atom.acq_rel.gpu.global.cas.b32 %r5, [%rd1+24], 0, 77; atom.global.exch.b32 %r6, [%rd1+28], 5; "
      "cvt.u64.u32 %rd2, %r1; red.global.add.u64 [%rd1+32], %rd2;\n"
      "mov.b32 %r7, 0x3f803f80; atom.global.add.noftz.bf16x2 %r8, [%rd1+40], %r7;",
      1));
  DeviceBuffer out = device.upload(std::vector<uint32_t>{0, 0, 0, ~0u, 1, 0, 0, 0, 0, 0, 0, 0});
  module.run("k", shape(2, 64), {out});
  const auto got = out.read<uint32_t>();
  CHECK(got[0] == 128);
  CHECK(got[1] == 63);
  CHECK(real(got[2]) == 2 * 63 * 32.0f);
  CHECK(got[3] == ~1u);
  CHECK(got[4] == 257);
  CHECK(got[5] == 128 % 10);
  CHECK(got[6] == 77);
  CHECK(got[7] == 5);
  CHECK(got[8] == 2 * 63 * 32);
  CHECK(got[10] == 0x43004300); // 128 as bf16, twice
}
