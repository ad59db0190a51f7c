// Every check of the look-alike has a kernel here that it must refuse, and where it matters the same kernel
// mended.
#include "tests/cuda_driver/Ptx.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace smelt::tests;
using Catch::Matchers::Contains;

namespace {

const std::string kTid =
    "ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;\n";
const std::string kTile =
    ".shared .align 16 .b8 tile[1024]; mov.u32 %r20, tile; shl.b32 %r21, %r1, 2; add.u32 %r22, %r20, %r21;\n";

std::string run(const std::string &body, unsigned threads = 64, const std::string &directives = "",
                unsigned ctas = 1, const std::string &globals = "", unsigned shared_bytes = 0,
                const std::string &target = "sm_90") {
  const DeviceBuffer out = TestDevice::get().upload(std::vector<uint32_t>(1024, 0));
  return failure(kernelText(kTid + body, 1, directives, target, globals), shape(ctas, threads, shared_bytes),
                 {out});
}

/// Sets an environment variable for one scope.
class Setting {
public:
  Setting(const char *name, const char *value) : name(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name); }

private:
  const char *name;
};

} // namespace

TEST_CASE("out-of-bounds and misaligned accesses") {
  const std::string global = run("st.global.u32 [%rd3+4096], %r1;");
  CHECK_THAT(global, Contains("CUDA_ERROR_ILLEGAL_ADDRESS") &&
                         Contains("out-of-bounds global write of 4 bytes") && Contains("thread (0,0,0)") &&
                         Contains("0 bytes past the end"));
  CHECK_THAT(run("mov.u64 %rd5, 64; ld.global.u32 %r2, [%rd5];"), Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK_THAT(run("st.global.u32 [%rd3+2], %r1;"), Contains("CUDA_ERROR_MISALIGNED_ADDRESS"));
  CHECK_THAT(run("ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd3];"),
             Contains("CUDA_ERROR_MISALIGNED_ADDRESS") && Contains("thread (1,0,0)"));
  CHECK_THAT(run(kTile + "st.shared.u32 [%r22+1000], %r1;"),
             Contains("CUDA_ERROR_ILLEGAL_ADDRESS") && Contains("out-of-bounds shared write"));
  // An array declared with less alignment than its accesses need.
  CHECK_THAT(
      run(".shared .align 4 .b8 low[64]; mov.u32 %r2, low; st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};", 1),
      Contains("CUDA_ERROR_MISALIGNED_ADDRESS"));
  CHECK_THAT(run(".local .align 4 .b8 depot[16]; mov.b64 %rd5, depot; st.local.u32 [%rd5+16], %r1;"),
             Contains("out-of-bounds local"));
  CHECK_THAT(run("mov.u64 %rd5, table; st.global.u32 [%rd5], %r1;", 1, "", 1,
                 ".const .align 4 .u32 table[2] = {1, 2};"),
             Contains("write to constant memory"));
}

TEST_CASE("uninitialised reads") {
  CHECK_THAT(run(kTile + "ld.shared.u32 %r2, [%r22];"), Contains("uninitialised shared memory"));
  const std::string text = kernelText("ld.param.u64 %rd1, [p0]; ld.global.u32 %r2, [%rd1+8];", 1);
  CHECK(failure(text, shape(1, 1), {TestDevice::get().allocate(64)}).empty());
  const Setting tracked("SMELT_TEST_CUDA_UNWRITTEN", "1");
  CHECK_THAT(failure(text, shape(1, 1), {TestDevice::get().allocate(64)}), Contains("never written"));
  CHECK(failure(text, shape(1, 1), {TestDevice::get().upload(std::vector<uint32_t>(16, 1))}).empty());
}

TEST_CASE("races in shared memory") {
  const std::string store = kTile + "st.shared.u32 [%r22], %r1;\n",
                    load = "xor.b32 %r21, %r21, 128; add.u32 %r22, %r20, %r21; ld.shared.u32 %r2, [%r22];\n";
  CHECK_THAT(run(store + load), Contains("race on shared memory") || Contains("uninitialised"));
  CHECK(run(store + "bar.sync 0;\n" + load) == "");
  // Reuse without a barrier: write after read.
  CHECK_THAT(run(store + "bar.sync 0;\n" + load + "st.shared.u32 [%r22], %r2;\n" +
                 "xor.b32 %r21, %r21, 128; add.u32 %r22, %r20, %r21; st.shared.u32 [%r22], %r1;"),
             Contains("race on shared memory"));
  // Lanes of one warp need a barrier too.
  const std::string neighbour = "xor.b32 %r21, %r21, 4; add.u32 %r22, %r20, %r21; ld.shared.u32 %r2, [%r22];";
  CHECK_THAT(run(store + neighbour, 32), Contains("race on shared memory"));
  CHECK(run(store + "bar.warp.sync -1;\n" + neighbour, 32) == "");
  // Two lanes write different values to one place; the same value is no race.
  CHECK_THAT(run(kTile + "st.shared.u32 [tile], %r1;", 32), Contains("race on shared memory"));
  CHECK(run(kTile + "st.shared.u32 [tile], 7;", 64) == "");
  // Halves of a word are different places.
  CHECK(run(kTile + "shl.b32 %r2, %r1, 1; add.u32 %r2, %r20, %r2; st.shared.b16 [%r2], %r1;", 64) == "");
}

TEST_CASE("asynchronous copies nobody waited for") {
  const std::string copy = kTile + "cp.async.ca.shared.global [%r22], [%rd3], 4; cp.async.commit_group;\n";
  const std::string read = "ld.shared.u32 %r2, [%r22];";
  CHECK_THAT(run(copy + read), Contains("asynchronous copy"));
  CHECK_THAT(run(copy + copy.substr(copy.find("cp.async")) + "cp.async.wait_group 1;\n" + read),
             Contains("asynchronous copy"));
  CHECK(run(copy + "cp.async.wait_group 0;\n" + read) == "");
  // The wait orders the thread itself; the others need the barrier.
  const std::string other = "xor.b32 %r21, %r21, 128; add.u32 %r22, %r20, %r21; ld.shared.u32 %r2, [%r22];";
  CHECK_THAT(run(copy + "cp.async.wait_group 0;\n" + other), Contains("race") || Contains("uninitialised"));
  CHECK(run(copy + "cp.async.wait_group 0; bar.sync 0;\n" + other) == "");
  // Without the checker the data is late, so that results show it.
  const Setting unchecked("SMELT_TEST_CUDA_CHECK", "0");
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(kTid + copy + read + "st.global.u32 [%rd3+512], %r2;", 1));
  const DeviceBuffer out = device.upload(std::vector<uint32_t>(256, 5));
  module.run("k", shape(1, 32), {out});
  CHECK(out.read<uint32_t>()[128] == 0xffffffff);
}

TEST_CASE("races between CTAs") {
  CHECK_THAT(run("mov.u32 %r2, %ctaid.x; st.global.u32 [%rd1], %r2;", 1, "", 2),
             Contains("race on global memory"));
  CHECK_THAT(run("mov.u32 %r2, %ctaid.x; ld.global.u32 %r3, [%rd1]; setp.eq.u32 %p1, %r2, 1; @%p1 "
                 "st.global.u32 [%rd1], 9;",
                 1, "", 2),
             Contains("race on global memory"));
  CHECK(run("red.global.add.u32 [%rd1], 1;", 32, "", 4) == "");
  // The read-only path is for memory that the launch does not write, in no order.
  CHECK_THAT(run("ld.global.nc.u32 %r2, [%rd3]; add.u32 %r2, %r2, 1; st.global.u32 [%rd3], %r2;"),
             Contains("read-only path"));
  CHECK_THAT(run("st.global.u32 [%rd3], %r1; ld.global.nc.u32 %r2, [%rd3];"),
             Contains("ld.global.nc is for memory"));
  CHECK(run("ld.global.nc.u32 %r2, [%rd3]; st.global.u32 [%rd3+256], %r2;") == "");
  // The last CTA reads what the others wrote: legal with fences around the counter, a race without.
  const std::string write = "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; mul.wide.u32 %rd5, %r2, 4; "
                            "add.s64 %rd5, %rd1, %rd5; st.global.u32 [%rd5+64], %r2;\n";
  const std::string count =
      "atom.global.add.u32 %r4, [%rd1], 1; sub.u32 %r5, %r3, 1; setp.ne.u32 %p1, %r4, %r5; @%p1 ret;\n";
  const std::string read = "ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd1+64]; st.global.u32 [%rd1+128], %r7;";
  CHECK(run(write + "fence.acq_rel.gpu;\n" + count + "fence.acq_rel.gpu;\n" + read, 1, "", 4) == "");
  CHECK(run(write + "membar.gl;\n" + count + "membar.gl;\n" + read, 1, "", 4) == "");
  CHECK(run(write + "atom.acq_rel.gpu" + count.substr(4) + read, 1, "", 4) == "");
  CHECK_THAT(run(write + count + read, 1, "", 4), Contains("race on global memory"));
  CHECK_THAT(run(write + count + "fence.acq_rel.gpu;\n" + read, 1, "", 4), Contains("race on global memory"));
}

TEST_CASE("the last CTA reads what all threads of the others wrote, and resets the counter") {
  const auto kernel = [](const std::string &fence, const std::string &barrier) {
    return ".shared .align 4 .b8 ticket[4]; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r4, "
           "%r2, 64, %r1;\n"
           "mul.wide.u32 %rd5, %r4, 4; add.s64 %rd5, %rd1, %rd5; st.global.u32 [%rd5+64], %r4;\n" +
           fence + barrier +
           "setp.ne.u32 %p1, %r1, 0; @%p1 bra T; atom.global.add.u32 %r5, [%rd1], 1; st.shared.u32 [ticket], "
           "%r5; T: bar.sync 0;\n"
           "ld.shared.u32 %r6, [ticket]; sub.u32 %r7, %r3, 1; setp.ne.u32 %p2, %r6, %r7; @%p2 ret;\n" +
           fence +
           "ld.global.u32 %r8, [%rd3+64]; ld.global.u32 %r9, [%rd3+320]; @!%p1 st.global.u32 [%rd1], 0;";
  };
  CHECK(run(kernel("membar.gl;\n", "bar.sync 0;\n"), 64, "", 3) == "");
  CHECK(run(kernel("fence.acq_rel.gpu;\n", "bar.sync 0;\n"), 64, "", 3) == "");
  CHECK_THAT(run(kernel("", "bar.sync 0;\n"), 64, "", 3), Contains("race on global memory"));
  CHECK_THAT(run(kernel("membar.gl;\n", ""), 64, "", 3), Contains("race on global memory"));
}

TEST_CASE("barriers that not all threads reach") {
  CHECK_THAT(run("setp.lt.u32 %p1, %r1, 16; @%p1 bra L; bar.sync 0; L: mov.u32 %r2, 0;"),
             Contains("divergent warp at an .aligned instruction"));
  CHECK_THAT(run("setp.lt.u32 %p1, %r1, 32; @%p1 ret; bar.sync 0;"),
             Contains("have exited") || Contains("deadlock"));
  CHECK_THAT(run("setp.lt.u32 %p1, %r1, 32; @%p1 bra L; bar.sync 0; bra.uni M; L: bar.sync 1; M:"),
             Contains("deadlock in CTA (0,0,0)"));
  CHECK_THAT(run("bar.sync 0, 48;"), Contains("multiple of 32"));
  CHECK_THAT(run("mov.u32 %r2, 16; bar.sync %r2;"), Contains("barrier id 16"));
}

TEST_CASE("collectives with the wrong lanes") {
  CHECK_THAT(run("shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff;"), Contains("which is not in it"));
  CHECK_THAT(run("setp.lt.u32 %p1, %r1, 8; @!%p1 bra L; shfl.sync.bfly.b32 %r2, %r1, 16, 31, 0xff; L:", 32),
             Contains("does not take part"));
  CHECK_THAT(run("setp.lt.u32 %p1, %r1, 16; @!%p1 bra L; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; "
                 "bar.warp.sync 0xffff; L: bar.warp.sync 0xffff0000;",
                 32),
             Contains("deadlock") || Contains("not in it"));
  CHECK_THAT(run("setp.lt.u32 %p1, %r1, 16; @!%p1 bra L; mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
                 "{%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f1, %f2, %f3, %f4}; L: mov.u32 %r2, 0;",
                 32),
             Contains("divergent warp at an .aligned instruction"));
  CHECK_THAT(run("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, "
                 "{%r3}, {%f1, %f2, %f3, %f4};",
                 16),
             Contains("needs all 32 lanes"));
}

TEST_CASE("kernels that never end") {
  CHECK_THAT(run("L: ld.acquire.gpu.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;", 32),
             Contains("CUDA_ERROR_LAUNCH_TIMEOUT"));
  CHECK_THAT(run("setp.eq.u32 %p1, %r1, 9; @%p1 trap;"),
             Contains("CUDA_ERROR_LAUNCH_FAILED") && Contains("trap") && Contains("thread (9,0,0)"));
}

TEST_CASE("mbarriers used wrongly") {
  const std::string init =
      ".shared .align 8 .b8 bar[8]; setp.ne.u32 %p1, %r1, 0; @!%p1 mbarrier.init.shared.b64 [bar], 2;\n";
  CHECK_THAT(run(init + "mbarrier.arrive.shared.b64 %rd5, [bar];", 2), Contains("race on shared memory"));
  CHECK(run(init + "bar.sync 0; mbarrier.arrive.shared.b64 %rd5, [bar];", 2) == "");
  CHECK_THAT(run(init + "bar.sync 0; W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;", 2),
             Contains("deadlock"));
  CHECK_THAT(run(".shared .align 8 .b8 bar[8]; mbarrier.arrive.shared.b64 %rd5, [bar];"),
             Contains("no mbarrier was initialised"));
  CHECK_THAT(run(".shared .align 8 .b8 bar[8]; mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 "
                 "%rd5, [bar], 3;",
                 1),
             Contains("expects 2 more of 2"));
  // Data of a bulk copy may be read after the wait, not before.
  const std::string bulk =
      ".shared .align 8 .b8 bar[8]; .shared .align 16 .b8 box[64]; mbarrier.init.shared.b64 [bar], 1; "
      "mov.u32 %r2, box;\n"
      "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 64, [bar];\n";
  const std::string wait = "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;\n";
  CHECK_THAT(run(bulk + "ld.shared.u32 %r3, [box];" + wait, 1), Contains("asynchronous copy"));
  CHECK(run(bulk + wait + "ld.shared.u32 %r3, [box];", 1) == "");
}

TEST_CASE("wgmma without its fences") {
  const std::string start =
      "mov.u32 %r2, smem; shl.b32 %r3, %r1, 4; add.u32 %r2, %r2, %r3; st.shared.v4.u32 [%r2], {%r1, %r1, "
      "%r1, %r1}; st.shared.v4.u32 [%r2+2048], {%r1, %r1, %r1, %r1};\n";
  const std::string product =
      "setp.ne.u32 %p1, %r1, 1000; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, "
      "68720001024, 68720001152, %p1, 1, 1, 0, 0;\n"
      "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;";
  const auto go = [&](const std::string &body) {
    return run(body, 128, ".reqntid 128", 1, ".extern .shared .align 1024 .b8 smem[];", 8192, "sm_90a");
  };
  CHECK(go(start + "fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned;\n" + product) == "");
  CHECK_THAT(go(start + "bar.sync 0; wgmma.fence.sync.aligned;\n" + product),
             Contains("without fence.proxy.async"));
  CHECK_THAT(go(start + "fence.proxy.async; bar.sync 0;\n" + product), Contains("without wgmma.fence"));
  CHECK_THAT(go(start + "fence.proxy.async; wgmma.fence.sync.aligned;\n" + product),
             Contains("race on shared memory") || Contains("uninitialised"));
}

TEST_CASE("launches that do not fit the kernel") {
  CHECK_THAT(run("", 64, ".reqntid 32"),
             Contains("CUDA_ERROR_INVALID_VALUE") && Contains(".reqntid is 32x1x1"));
  CHECK_THAT(run("", 64, ".maxntid 32"), Contains(".maxntid is 32x1x1"));
  CHECK_THAT(run("", 2048), Contains("1024 at most"));
  CHECK_THAT(run("", 32, "", 1, "", 230 * 1024 + 4096), Contains("CUDA_ERROR_INVALID_VALUE"));
}

TEST_CASE("texts that no driver takes") {
  const auto load = [](const std::string &body, const std::string &target = "sm_90") {
    return failure(kernelText(body, 0, "", target), shape(1, 1), {});
  };
  const std::string unknown = load("mov.u32 %r1, 0;\nfrobnicate.b32 %r1, %r2;");
  CHECK_THAT(unknown, Contains("CUDA_ERROR_INVALID_PTX") && Contains("unknown instruction 'frobnicate'") &&
                          Contains("frobnicate.b32 %r1, %r2;"));
  CHECK_THAT(load("add.f16x4 %r1, %r2, %r3;"), Contains("expected a type"));
  CHECK_THAT(load("add.u32 %rd1, %r2, %r3;"), Contains("register of 4 bytes"));
  CHECK_THAT(load("add.u32 %r1, %r2, %r99;"), Contains("CUDA_ERROR_INVALID_PTX"));
  CHECK_THAT(load("bra NOWHERE;"), Contains("label NOWHERE is defined nowhere"));
  CHECK_THAT(load("call.uni foo, ();"), Contains("CUDA_ERROR_INVALID_PTX"));
  CHECK_THAT(load("", "sm_100"), Contains("CUDA_ERROR_INVALID_PTX") && Contains("the device is sm_90"));
  CHECK_THAT(failure("\177ELF" + std::string(60, '\0'), shape(1, 1), {}),
             Contains("CUDA_ERROR_NO_BINARY_FOR_GPU"));
  const Setting old("SMELT_TEST_CUDA_DRIVER", "12000");
  CHECK_THAT(load(""), Contains("CUDA_ERROR_UNSUPPORTED_PTX_VERSION"));
}

TEST_CASE("a fault stays until the context is new") {
  TestDevice &device = TestDevice::get();
  const TestModule bad = device.load(kernelText("trap;", 0)), good = device.load(kernelText("", 0));
  CHECK_THROWS_AS(bad.run("k", shape(1, 1), {}), CudaError);
  CHECK_THROWS_AS(good.run("k", shape(1, 1), {}), CudaError);
  CHECK_THROWS_AS(device.allocate(16), CudaError);
  device.clearError();
  CHECK_NOTHROW(good.run("k", shape(1, 1), {}));
}
