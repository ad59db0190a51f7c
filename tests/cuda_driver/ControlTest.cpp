// Branches, divergence, loops, predication, scopes, launch geometry.
#include "tests/cuda_driver/Ptx.h"

#include <catch2/catch.hpp>

using namespace smelt::tests;

namespace {

std::vector<uint32_t> iota(uint32_t count) {
  std::vector<uint32_t> values(count);
  for (uint32_t i = 0; i < count; ++i) {
    values[i] = i;
  }
  return values;
}

} // namespace

TEST_CASE("loops with a different trip count a lane") {
  // Collatz steps of i + 1: divergent branches inside a divergent loop.
  const auto got = run32("add.u32 %r1, %r1, 1; mov.u32 %r0, 0;\n"
                         "LOOP: setp.eq.u32 %p1, %r1, 1; @%p1 bra DONE;\n"
                         "and.b32 %r4, %r1, 1; setp.eq.u32 %p2, %r4, 0; @%p2 bra EVEN;\n"
                         "mad.lo.u32 %r1, %r1, 3, 1; bra.uni NEXT;\n"
                         "EVEN: shr.u32 %r1, %r1, 1;\n"
                         "NEXT: add.u32 %r0, %r0, 1; bra LOOP;\n"
                         "DONE:",
                         iota(100));
  for (uint32_t i = 0; i < 100; ++i) {
    uint32_t steps = 0;
    for (uint64_t n = i + 1; n != 1; ++steps) {
      n = n % 2 ? 3 * n + 1 : n / 2;
    }
    CHECK(got[i] == steps);
  }
}

TEST_CASE("lanes meet again after a branch, whatever the order of the blocks") {
  // The cold block stands at the end and jumps back: the shuffle needs the whole warp.
  const auto got = run32("mov.u32 %r5, %r1; and.b32 %r4, %r1, 3; setp.eq.u32 %p1, %r4, 0; @%p1 bra COLD;\n"
                         "add.u32 %r5, %r5, 100;\n"
                         "JOIN: shfl.sync.bfly.b32 %r0, %r5, 1, 31, -1; activemask.b32 %r6;\n"
                         "setp.ne.u32 %p2, %r6, -1; @%p2 mov.u32 %r0, 0; bra.uni END;\n"
                         "COLD: add.u32 %r5, %r5, 1000; bra JOIN;\n"
                         "END:",
                         iota(64));
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t other = i ^ 1;
    CHECK(got[i] == other + (other % 4 == 0 ? 1000 : 100));
  }
}

TEST_CASE("an early exit does not keep the other lanes apart") {
  TestDevice &device = TestDevice::get();
  // Lanes 24..31 leave inside a divergent branch; the others meet at the vote.
  const TestModule module = device.load(
      kernelText("ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 16; @!%p1 bra JOIN;\n"
                 "setp.ge.u32 %p2, %r1, 24; @%p2 ret;\n"
                 "JOIN: vote.sync.ballot.b32 %r2, %p1, 0x00ffffff; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, "
                 "%rd1, %rd2; st.global.u32 [%rd1], %r2;",
                 1));
  const DeviceBuffer out = device.upload(std::vector<uint32_t>(32, 7));
  module.run("k", shape(1, 32), {out});
  const auto got = out.read<uint32_t>();
  for (uint32_t i = 0; i < 32; ++i) {
    CHECK(got[i] == (i < 24 ? 0x00ff0000u : 7u));
  }
}

TEST_CASE("nested scopes have registers and labels of their own") {
  const auto got = run32("mov.u32 %r0, %r1;\n"
                         "// begin inline asm\n{ .reg .pred P; .reg .b32 %r1; mov.u32 %r1, 5; setp.lt.u32 P, "
                         "%r0, 3; @P bra L; add.u32 %r0, %r0, %r1; L: }\n// end inline asm\n"
                         "// begin inline asm\n{ .reg .pred P; setp.lt.u32 P, %r0, 2; @P bra L; add.u32 %r0, "
                         "%r0, 10; L: }\n// end inline asm\n",
                         iota(8));
  for (uint32_t i = 0; i < 8; ++i) {
    uint32_t want = i + (i < 3 ? 0 : 5);
    want += want < 2 ? 0 : 10;
    CHECK(got[i] == want);
  }
}

TEST_CASE("jump tables") {
  const auto got = run32(
      "and.b32 %r4, %r1, 3; T: .branchtargets A, B, C, D; brx.idx %r4, T;\n"
      "A: mov.u32 %r0, 10; bra.uni END; B: mov.u32 %r0, 20; bra.uni END; C: mov.u32 %r0, 30; bra.uni END;\n"
      "D: mov.u32 %r0, 40; END: vote.sync.ballot.b32 %r5, %p1, -1;",
      iota(32));
  for (uint32_t i = 0; i < 32; ++i) {
    CHECK(got[i] == 10 * (i % 4 + 1));
  }
}

TEST_CASE("geometry of the launch") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(
      "ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ctaid.x; mov.u32 "
      "%r4, %ctaid.y;\n"
      "mov.u32 %r5, %ntid.x; mov.u32 %r6, %ntid.y; mov.u32 %r7, %nctaid.x; mov.u32 %r8, %laneid; mov.u32 "
      "%r9, %warpid;\n"
      "mad.lo.u32 %r10, %r4, %r7, %r3; mad.lo.u32 %r10, %r10, %r6, %r2; mad.lo.u32 %r10, %r10, %r5, %r1;\n"
      "mad.lo.u32 %r11, %r9, 32, %r8; mul.wide.u32 %rd2, %r10, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 "
      "[%rd1], %r11;",
      1));
  const DeviceBuffer out = device.allocate(3 * 2 * 20 * 3 * 4);
  LaunchShape shape;
  shape.grid[0] = 3;
  shape.grid[1] = 2;
  shape.block[0] = 20;
  shape.block[1] = 3;
  module.run("k", shape, {out});
  const auto got = out.read<uint32_t>();
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == i % 60);
  }
}

TEST_CASE("parameters by value, of every width") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(
      ".version 8.3\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 .ptr .global .align 16 out, .param .u8 a, .param .u16 b, .param .f64 c, "
      ".param .align 8 .b8 d[12])\n{\n"
      ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b16 %rs<3>;\n"
      "ld.param.u64 %rd1, [out]; ld.param.u8 %r1, [a]; ld.param.s16 %r2, [b]; ld.param.b64 %rd2, [c]; "
      "ld.param.u32 %r3, [d+8];\n"
      "mov.b64 %rd3, d; cvta.param.u64 %rd3, %rd3; ld.u32 %r4, [%rd3+4]; ld.param.v2.u32 {%r5, %r6}, [d];\n"
      "st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4}; st.global.b64 [%rd1+16], %rd2; st.global.v2.b32 "
      "[%rd1+24], {%r5, %r6};\nret;\n}\n");
  const DeviceBuffer out = device.allocate(32);
  struct {
    uint32_t v[3];
  } d{{11, 22, 33}};
  module.run("k", shape(1, 1), {out, uint8_t(200), int16_t(-2), 2.5, d});
  const auto got = out.read<uint32_t>();
  CHECK(got[0] == 200);
  CHECK(got[1] == uint32_t(-2));
  CHECK(got[2] == 33);
  CHECK(got[3] == 22);
  CHECK((uint64_t(got[5]) << 32 | got[4]) == bits64(2.5));
  CHECK(got[6] == 11);
  CHECK(got[7] == 22);
}
