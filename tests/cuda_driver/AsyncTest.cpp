// Asynchronous copies, mbarriers and wgmma beyond what MatrixTest needs of them.
#include "tests/cuda_driver/Ptx.h"

#include <catch2/catch.hpp>

using namespace smelt::tests;

namespace {

uint16_t bf16(float v) { return static_cast<uint16_t>(bits(v) >> 16); }

} // namespace

TEST_CASE("bulk copies there and back") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(
      ".shared .align 8 .b8 bar[8]; .shared .align 128 .b8 box[256]; ld.param.u64 %rd1, [p0]; ld.param.u64 "
      "%rd2, [p1];\n"
      "mov.u32 %r1, %tid.x; mov.u32 %r2, box; setp.ne.u32 %p1, %r1, 0; @!%p1 mbarrier.init.shared::cta.b64 "
      "[bar], 1; bar.sync 0;\n"
      "@%p1 bra W; mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd5, [bar], 256;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 128, [bar];\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+128], [%rd2+128], 128, [bar];\n"
      "W: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [bar], 0, 1000; @!%p2 bra W;\n"
      "shl.b32 %r3, %r1, 2; add.u32 %r3, %r2, %r3; ld.shared.u32 %r4, [%r3]; add.u32 %r4, %r4, 5; "
      "st.shared.u32 [%r3], %r4;\n"
      "fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra E; cp.async.bulk.global.shared::cta.bulk_group "
      "[%rd1], [%r2], 256;\n"
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; E:",
      2, "", "sm_90"));
  std::vector<uint32_t> in(64);
  for (uint32_t i = 0; i < 64; ++i) {
    in[i] = i * 3;
  }
  const DeviceBuffer from = device.upload(in), out = device.allocate(256);
  module.run("k", shape(1, 64), {out, from});
  const auto got = out.read<uint32_t>();
  for (uint32_t i = 0; i < 64; ++i) {
    CHECK(got[i] == in[i] + 5);
  }
}

TEST_CASE("a producer that does not wait for its own copies") {
  // The consumers in warp 0 sleep at the mbarrier before anything is issued; two lanes of warp 1 bring the
  // data.
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(
      kernelText(".shared .align 8 .b8 bar[8]; .shared .align 128 .b8 box[128]; ld.param.u64 %rd1, [p0]; "
                 "ld.param.u64 %rd2, [p1];\n"
                 "mov.u32 %r1, %tid.x; mov.u32 %r2, box; setp.ne.u32 %p1, %r1, 0; @!%p1 "
                 "mbarrier.init.shared.b64 [bar], 1; bar.sync 0;\n"
                 "setp.lt.u32 %p2, %r1, 32; @%p2 bra CONSUME; setp.eq.u32 %p3, %r1, 32; @%p3 "
                 "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;\n"
                 "bar.warp.sync -1; setp.gt.u32 %p4, %r1, 33; @%p4 ret; sub.u32 %r3, %r1, 32; shl.b32 %r3, "
                 "%r3, 6; add.u32 %r4, %r2, %r3; cvt.u64.u32 %rd3, %r3;\n"
                 "add.s64 %rd2, %rd2, %rd3; cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
                 "[%r4], [%rd2], 64, [bar]; ret;\n"
                 "CONSUME: mbarrier.try_wait.parity.shared.b64 %p5, [bar], 0; @!%p5 bra CONSUME;\n"
                 "shl.b32 %r5, %r1, 2; add.u32 %r6, %r2, %r5; ld.shared.u32 %r7, [%r6]; cvt.u64.u32 %rd4, "
                 "%r5; add.s64 %rd1, %rd1, %rd4; st.global.u32 [%rd1], %r7;",
                 2));
  std::vector<uint32_t> in(32);
  for (uint32_t i = 0; i < 32; ++i) {
    in[i] = 7 * i;
  }
  const DeviceBuffer from = device.upload(in), out = device.allocate(128);
  module.run("k", shape(1, 64), {out, from});
  CHECK(out.read<uint32_t>() == in);
}

TEST_CASE("arrivals that follow a thread's copies") {
  TestDevice &device = TestDevice::get();
  for (const std::string form : {"", ".noinc"}) {
    // Without .noinc the arrival pays for itself, so that every thread arrives once more.
    const TestModule module = device.load(kernelText(
        ".shared .align 8 .b8 bar[8]; .shared .align 16 .b8 box[256]; ld.param.u64 %rd1, [p0]; ld.param.u64 "
        "%rd2, [p1];\n"
        "mov.u32 %r1, %tid.x; mov.u32 %r2, box; setp.ne.u32 %p1, %r1, 0; @!%p1 mbarrier.init.shared.b64 "
        "[bar], 64; bar.sync 0;\n"
        "shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; cvt.u64.u32 %rd3, %r3; add.s64 %rd2, %rd2, %rd3;\n"
        "cp.async.ca.shared.global [%r4], [%rd2], 4; cp.async.mbarrier.arrive" +
            form + ".shared.b64 [bar];\n" +
            (form.empty() ? "mbarrier.arrive.shared.b64 %rd6, [bar];\n" : "") +
            "W: mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;\n"
            "xor.b32 %r5, %r3, 252; add.u32 %r5, %r2, %r5; ld.shared.u32 %r6, [%r5]; add.s64 %rd1, %rd1, "
            "%rd3; st.global.u32 [%rd1], %r6;",
        2));
    std::vector<uint32_t> in(64);
    for (uint32_t i = 0; i < 64; ++i) {
      in[i] = i;
    }
    const DeviceBuffer from = device.upload(in), out = device.allocate(256);
    module.run("k", shape(1, 64), {out, from});
    const auto got = out.read<uint32_t>();
    for (uint32_t i = 0; i < 64; ++i) {
      CHECK(got[i] == (i ^ 63));
    }
  }
}

TEST_CASE("a ring of two buffers between a producer and a consumer warp") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(
      ".shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16]; .shared .align 16 .b8 box[256]; "
      "ld.param.u64 %rd1, [p0];\n"
      "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;\n"
      "mbarrier.init.shared.b64 [full], 32; mbarrier.init.shared.b64 [full+8], 32; mbarrier.init.shared.b64 "
      "[empty], 32; mbarrier.init.shared.b64 [empty+8], 32;\n"
      "READY: bar.sync 0; and.b32 %r2, %r1, 31; mov.u32 %r3, 0; mov.u32 %r10, 0; setp.ge.u32 %p2, %r1, 32;\n"
      "LOOP: and.b32 %r4, %r3, 1; shl.b32 %r5, %r4, 3; shr.u32 %r6, %r3, 1; and.b32 %r6, %r6, 1;\n"
      "mov.u32 %r7, full; add.u32 %r7, %r7, %r5; mov.u32 %r8, empty; add.u32 %r8, %r8, %r5;\n"
      "shl.b32 %r9, %r4, 7; shl.b32 %r11, %r2, 2; add.u32 %r9, %r9, %r11; mov.u32 %r12, box; add.u32 %r9, "
      "%r9, %r12; @%p2 bra CONSUME;\n"
      "xor.b32 %r13, %r6, 1; P: mbarrier.try_wait.parity.shared.b64 %p3, [%r8], %r13; @!%p3 bra P;\n"
      "mad.lo.u32 %r14, %r3, 100, %r2; st.shared.u32 [%r9], %r14; mbarrier.arrive.shared.b64 %rd5, [%r7]; "
      "bra.uni NEXT;\n"
      "CONSUME: mbarrier.try_wait.parity.shared.b64 %p3, [%r7], %r6; @!%p3 bra CONSUME;\n"
      "xor.b32 %r15, %r9, 4; ld.shared.u32 %r16, [%r15]; add.u32 %r10, %r10, %r16; "
      "mbarrier.arrive.shared.b64 %rd5, [%r8];\n"
      "NEXT: add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 9; @%p4 bra LOOP;\n"
      "@!%p2 ret; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r10;",
      1));
  const DeviceBuffer out = device.allocate(128);
  module.run("k", shape(1, 64), {out});
  const auto got = out.read<uint32_t>();
  for (uint32_t i = 0; i < 32; ++i) {
    CHECK(got[i] == 3600 + 9 * (i ^ 1));
  }
}

TEST_CASE("wgmma with A in registers, and not done before the wait") {
  // B is the 16x8 matrix with ones in row 3: D's column n is A's column 3.
  std::vector<uint16_t> b(128, 0);
  for (uint32_t n = 0; n < 8; ++n) {
    b[n * 8 + 3] = bf16(1.0f); // core matrix of k 0..7: rows n of 16 bytes
  }
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(
      "ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 16; @%p1 "
      "bra S;\n"
      "shl.b32 %r2, %r1, 4; cvt.u64.u32 %rd3, %r2; add.s64 %rd2, %rd2, %rd3; ld.global.v4.u32 {%r3, %r4, "
      "%r5, %r6}, [%rd2];\n"
      "mov.u32 %r7, smem; add.u32 %r7, %r7, %r2; st.shared.v4.u32 [%r7], {%r3, %r4, %r5, %r6};\n"
      "S: fence.proxy.async; bar.sync 0; cvt.rn.f32.u32 %f10, %r1; cvt.rn.bf16x2.f32 %r10, %f10, %f10;\n"
      "mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; setp.eq.u32 %p2, 0, "
      "0;\n"
      // A's columns 2q, 2q+1 are register 0 and 1: lane q = 1 holds column 3.
      "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, "
      "{%r10, %r10, %r10, %r10}, 34360262656, %p2, 1, -1, 0;\n"
      "wgmma.commit_group.sync.aligned; mov.f32 %f5, %f1; wgmma.wait_group.sync.aligned 0;\n"
      "mul.wide.u32 %rd4, %r1, 8; add.s64 %rd1, %rd1, %rd4; st.global.v2.f32 [%rd1], {%f5, %f1};",
      2, ".reqntid 128", "sm_90a", ".extern .shared .align 1024 .b8 smem[];"));
  const DeviceBuffer in = device.upload(b), out = device.allocate(128 * 8);
  module.run("k", shape(1, 128, 1024), {out, in});
  const auto got = out.read<float>();
  for (uint32_t t = 0; t < 128; ++t) {
    CHECK(got[2 * t] == 1.0f); // not there yet
    const uint32_t holder = t / 4 * 4 + 1;
    CHECK(got[2 * t + 1] == 1.0f - real(uint32_t(bf16(float(holder))) << 16));
  }
}

TEST_CASE("launch control and hints change nothing") {
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(
      "griddepcontrol.wait; setmaxnreg.dec.sync.aligned.u32 40; ld.param.u64 %rd1, [p0]; prefetch.global.L2 "
      "[%rd1]; mov.u32 %r1, %clock; mov.u64 %rd2, %globaltimer;\n"
      "nanosleep.u32 20; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r2, "
      "%cluster_ctarank; mov.u32 %r3, %cluster_nctarank;\n"
      "mov.u32 %r4, 64; mapa.shared::cluster.u32 %r5, %r4, %r2; mov.u32 %r6, %lanemask_lt; "
      "griddepcontrol.launch_dependents;\n"
      "mov.u32 %r7, %tid.x; setp.eq.u32 %p1, %r7, 5; @%p1 st.global.v4.u32 [%rd1], {%r2, %r3, %r5, %r6};",
      1, ".reqntid 32", "sm_90a"));
  const DeviceBuffer out = device.allocate(16);
  module.run("k", shape(1, 32), {out});
  CHECK(out.read<uint32_t>() == std::vector<uint32_t>{0, 1, 64, 31});
}
