// Warp collectives and barriers.
#include "tests/cuda_driver/Ptx.h"

#include <bit>
#include <catch2/catch.hpp>

using namespace smelt::tests;

namespace {

std::vector<uint32_t> values() {
  std::vector<uint32_t> result(64);
  for (uint32_t i = 0; i < 64; ++i) {
    result[i] = i * 2654435761u;
  }
  return result;
}

} // namespace

TEST_CASE("shfl in all modes and widths") {
  const auto in = values();
  struct Case {
    std::string mode;
    uint32_t by, width;
  };
  for (const Case &c : {Case{"up", 3, 32}, Case{"down", 5, 32}, Case{"bfly", 16, 32}, Case{"idx", 7, 32},
                        Case{"up", 1, 8}, Case{"down", 2, 8}, Case{"bfly", 4, 8}, Case{"idx", 5, 16}}) {
    INFO(c.mode << " " << c.by << " in " << c.width);
    const uint32_t clamp = ((32 - c.width) << 8) | (c.mode == "up" ? 0 : 31);
    const auto got = run32("shfl.sync." + c.mode + ".b32 %r0|%p1, %r1, " + std::to_string(c.by) + ", " +
                               std::to_string(clamp) + ", -1; @!%p1 xor.b32 %r0, %r0, 1;",
                           in);
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t base = i / c.width * c.width, lane = i % c.width;
      const int from = c.mode == "up"     ? int(lane) - int(c.by)
                       : c.mode == "down" ? int(lane + c.by)
                       : c.mode == "bfly" ? int(lane ^ c.by)
                                          : int(c.by);
      const bool valid = from >= 0 && from < int(c.width);
      CHECK(got[i] == (valid ? in[base + static_cast<uint32_t>(from)] : in[i] ^ 1));
    }
  }
}

TEST_CASE("votes, reductions, matches") {
  const auto in = values();
  const auto ballot =
      run32("and.b32 %r2, %r1, 4; setp.ne.u32 %p1, %r2, 0; vote.sync.ballot.b32 %r0, %p1, -1;", in);
  const auto any =
      run32("setp.eq.u32 %p1, %r1, 0; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1;\n"
            "selp.b32 %r0, 1, 0, %p2; @%p3 add.u32 %r0, %r0, 2;",
            in);
  const auto sum = run32("redux.sync.add.u32 %r0, %r1, -1;", in),
             least = run32("redux.sync.min.s32 %r0, %r1, -1;", in);
  const auto match = run32("and.b32 %r1, %r1, 3; match.any.sync.b32 %r0, %r1, -1;", in);
  const auto elected = run32("elect.sync %r2|%p1, -1; selp.b32 %r0, 1, 0, %p1;", in);
  uint32_t want_ballot[2] = {0, 0}, want_sum[2] = {0, 0};
  int32_t want_least[2] = {INT32_MAX, INT32_MAX};
  for (uint32_t i = 0; i < 64; ++i) {
    want_ballot[i / 32] |= uint32_t((in[i] & 4) != 0) << (i % 32);
    want_sum[i / 32] += in[i];
    want_least[i / 32] = std::min(want_least[i / 32], int32_t(in[i]));
  }
  for (uint32_t i = 0; i < 64; ++i) {
    CHECK(ballot[i] == want_ballot[i / 32]);
    CHECK(any[i] == (i < 32 ? 1u : 0u));
    CHECK(sum[i] == want_sum[i / 32]);
    CHECK(int32_t(least[i]) == want_least[i / 32]);
    uint32_t same = 0;
    for (uint32_t j = 0; j < 32; ++j) {
      same |= uint32_t((in[i / 32 * 32 + j] & 3) == (in[i] & 3)) << j;
    }
    CHECK(match[i] == same);
    CHECK(elected[i] == (i % 32 == 0));
  }
}

TEST_CASE("lane groups of one collective may come from different branches") {
  const auto in = values();
  const auto got = run32("mov.u32 %r5, %laneid; setp.lt.u32 %p1, %r5, 16; @%p1 bra A;\n"
                         "shfl.sync.bfly.b32 %r0, %r1, 16, 31, -1; bra.uni END;\n"
                         "A: shfl.sync.bfly.b32 %r0, %r1, 16, 31, -1;\nEND:",
                         in);
  for (uint32_t i = 0; i < 64; ++i) {
    CHECK(got[i] == in[i ^ 16]);
  }
}

TEST_CASE("barriers with reductions, ids and counts") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(
      ".shared .align 4 .b8 box[8]; ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 50;\n"
      "barrier.cta.red.popc.aligned.u32 %r2, 0, %p1; bar.red.and.pred %p2, 1, %p1; bar.red.or.pred %p3, 1, "
      "%p1;\n"
      "setp.ge.u32 %p4, %r1, 64; @%p4 bra CONSUMER;\n"
      "mov.u32 %r3, 42; setp.eq.u32 %p5, %r1, 0; @%p5 st.shared.u32 [box], %r3; barrier.sync.aligned 2, 64; "
      "barrier.arrive.aligned 3, 128; bra.uni END;\n"
      "CONSUMER: barrier.sync.aligned 3, 128; ld.shared.u32 %r4, [box]; add.u32 %r2, %r2, %r4;\n"
      "END: selp.b32 %r5, 1000, 0, %p2; selp.b32 %r6, 2000, 0, %p3; add.u32 %r2, %r2, %r5; add.u32 %r2, %r2, "
      "%r6;\n"
      "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r2;",
      1));
  const DeviceBuffer out = device.allocate(512);
  module.run("k", shape(1, 128), {out});
  const auto got = out.read<uint32_t>();
  for (uint32_t i = 0; i < 128; ++i) {
    CHECK(got[i] == 50u + 2000 + (i >= 64 ? 42 : 0));
  }
}

TEST_CASE("CTAs may wait for each other") {
  // A grid barrier: all arrive, all spin.
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(
      kernelText("ld.param.u64 %rd1, [p0]; mov.u32 %r1, %nctaid.x; mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd2, "
                 "%r9, 4; add.s64 %rd3, %rd1, %rd2; add.u32 %r8, %r9, 7;\n"
                 "st.global.u32 [%rd3+16], %r8; fence.acq_rel.gpu; atom.global.add.u32 %r2, [%rd1], 1;\n"
                 "SPIN: ld.acquire.gpu.global.u32 %r3, [%rd1]; setp.lt.u32 %p1, %r3, %r1; @%p1 bra SPIN;\n"
                 "add.u32 %r4, %r9, 1; rem.u32 %r4, %r4, %r1; mul.wide.u32 %rd4, %r4, 4; add.s64 %rd4, %rd1, "
                 "%rd4; ld.global.u32 %r5, [%rd4+16];\n"
                 "add.s64 %rd5, %rd3, 64; st.global.u32 [%rd5], %r5;",
                 1));
  DeviceBuffer out = device.upload(std::vector<uint32_t>(40, 0));
  module.run("k", shape(8, 1), {out});
  const auto got = out.read<uint32_t>();
  for (uint32_t i = 0; i < 8; ++i) {
    CHECK(got[16 + i] == (i + 1) % 8 + 7);
  }
}
