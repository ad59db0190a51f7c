// The driver's own behaviour: identity, memory, streams that run late, events, capture and graphs, entry
// points.
#include "tests/cuda_driver/Ptx.h"
#include "tests/support/cuda/driver/DriverTypes.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

using namespace smelt::tests;

namespace {

template <class... Args> CUresult cu(const char *name, Args... args) {
  return reinterpret_cast<CUresult (*)(Args...)>(TestDevice::get().symbol(name))(args...);
}

class Setting {
public:
  Setting(const char *name, const char *value) : name(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name); }

private:
  const char *name;
};

/// A module whose kernel adds its second argument to 64 integers.
const char *const kAdd =
    ".version 8.3\n.target sm_80\n.address_size 64\n.global .align 4 .u32 counter = 5;\n"
    ".visible .entry add(.param .u64 p, .param .u32 n)\n.maxntid 64\n{\n.reg .b32 %r<5>; .reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 "
    "%rd1, %rd1, %rd2;\n"
    "ld.global.u32 %r3, [%rd1]; add.u32 %r3, %r3, %r1; st.global.u32 [%rd1], %r3; ret;\n}\n";

struct Fixture {
  Fixture() {
    TestDevice::get();
    REQUIRE(cu("cuModuleLoadData", &module, static_cast<const void *>(kAdd)) == CUDA_SUCCESS);
    REQUIRE(cu("cuModuleGetFunction", &add, module, "add") == CUDA_SUCCESS);
    REQUIRE(cu("cuStreamCreate", &stream, unsigned(CU_STREAM_NON_BLOCKING)) == CUDA_SUCCESS);
    REQUIRE(cu("cuMemHostAlloc", &pinned_memory, size_t(256), 0u) == CUDA_SUCCESS);
    pinned = static_cast<uint32_t *>(pinned_memory);
    std::memset(pinned, 0, 256);
  }
  ~Fixture() {
    cu("cuStreamDestroy_v2", stream);
    cu("cuMemFreeHost", pinned_memory);
    cu("cuModuleUnload", module);
  }
  CUresult launch(uint32_t n) {
    uint64_t address = buffer.address();
    void *params[] = {&address, &n};
    return cu("cuLaunchKernel", add, 1u, 1u, 1u, 64u, 1u, 1u, 0u, stream, &params[0],
              static_cast<void **>(nullptr));
  }
  CUresult copyOut() {
    return cu("cuMemcpyDtoHAsync_v2", pinned_memory, CUdeviceptr(buffer.address()), size_t(256), stream);
  }

  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CUstream stream = nullptr;
  void *pinned_memory = nullptr;
  uint32_t *pinned = nullptr;
  DeviceBuffer buffer = TestDevice::get().upload(std::vector<uint32_t>(64, 1));
};

} // namespace

TEST_CASE("identity of the device comes from the environment") {
  TestDevice::get();
  const Setting sm("SMELT_TEST_CUDA_SM", "86"), name("SMELT_TEST_CUDA_NAME", "A paper card"),
      memory("SMELT_TEST_CUDA_MEMORY", "512");
  const Setting driver("SMELT_TEST_CUDA_DRIVER", "12040"), devices("SMELT_TEST_CUDA_DEVICES", "2"),
      processors("SMELT_TEST_CUDA_MULTIPROCESSORS", "4");
  int value = 0;
  size_t bytes = 0, free = 0;
  char text[64];
  CHECK(cu("cuDeviceGetAttribute", &value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) == CUDA_SUCCESS);
  CHECK(value == 8);
  cu("cuDeviceGetAttribute", &value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 1);
  CHECK(value == 6);
  cu("cuDeviceGetAttribute", &value, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0);
  CHECK(value == 99 * 1024);
  cu("cuDeviceGetAttribute", &value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
  CHECK(value == 4);
  CHECK(cu("cuDeviceGetAttribute", &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 2) == CUDA_ERROR_INVALID_DEVICE);
  cu("cuDeviceGetName", &text[0], 64, 0);
  CHECK(std::string(text) == "A paper card");
  cu("cuDeviceTotalMem_v2", &bytes, 0);
  CHECK(bytes == size_t(512) << 20);
  cu("cuDriverGetVersion", &value);
  CHECK(value == 12040);
  cu("cuDeviceGetCount", &value);
  CHECK(value == 2);
  CUdeviceptr address = 0;
  CHECK(cu("cuMemAlloc_v2", &address, size_t(513) << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cu("cuMemAlloc_v2", &address, size_t(256) << 20) == CUDA_SUCCESS);
  cu("cuMemGetInfo_v2", &free, &bytes);
  CHECK(free <= size_t(256) << 20);
  CHECK(cu("cuMemAlloc_v2", &address, size_t(300) << 20) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE_METHOD(Fixture, "work on a stream runs when somebody waits for it") {
  REQUIRE(launch(10) == CUDA_SUCCESS);
  REQUIRE(copyOut() == CUDA_SUCCESS);
  CHECK(pinned[5] == 0);
  REQUIRE(cu("cuStreamSynchronize", stream) == CUDA_SUCCESS);
  CHECK(pinned[5] == 11);
  // Page-locked memory is read when the copy runs, other memory at the call.
  std::vector<uint32_t> pageable(64, 3);
  cu("cuMemcpyHtoDAsync_v2", CUdeviceptr(buffer.address()), static_cast<const void *>(pageable.data()),
     size_t(256), stream);
  pageable.assign(64, 4);
  cu("cuStreamSynchronize", stream);
  CHECK(buffer.read<uint32_t>()[0] == 3);
  pinned[0] = 8;
  cu("cuMemcpyHtoDAsync_v2", CUdeviceptr(buffer.address()), static_cast<const void *>(pinned), size_t(256),
     stream);
  pinned[0] = 9;
  cu("cuStreamSynchronize", stream);
  CHECK(buffer.read<uint32_t>()[0] == 9);
}

TEST_CASE_METHOD(Fixture, "a captured graph is replayed with the memory's contents of the day") {
  REQUIRE(cu("cuStreamBeginCapture_v2", stream, unsigned(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) ==
          CUDA_SUCCESS);
  launch(1);
  launch(2);
  copyOut();
  CHECK(cu("cuStreamSynchronize", static_cast<CUstream>(nullptr)) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cu("cuStreamEndCapture", stream, &graph) == CUDA_SUCCESS);
  size_t count = 0;
  cu("cuGraphGetNodes", graph, static_cast<CUgraphNode *>(nullptr), &count);
  REQUIRE(count == 3);
  std::vector<CUgraphNode> nodes(count);
  cu("cuGraphGetNodes", graph, nodes.data(), &count);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  cu("cuGraphNodeGetType", nodes[2], &type);
  CHECK(type == CU_GRAPH_NODE_TYPE_MEMCPY);
  CUgraphExec exec = nullptr;
  REQUIRE(cu("cuGraphInstantiateWithFlags", &exec, graph, 0ull) == CUDA_SUCCESS);
  CHECK(cu("cuGraphDestroy", graph) == CUDA_SUCCESS);
  CHECK(buffer.read<uint32_t>()[0] == 1); // capturing runs nothing
  for (uint32_t i = 1; i <= 3; ++i) {
    cu("cuGraphLaunch", exec, stream);
    cu("cuStreamSynchronize", stream);
    CHECK(pinned[63] == 1 + 3 * i);
  }
  CHECK(cu("cuGraphExecDestroy", exec) == CUDA_SUCCESS);
  CHECK(cu("cuGraphLaunch", exec, stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_METHOD(Fixture, "what a capture may not contain breaks it") {
  cu("cuStreamBeginCapture_v2", stream, unsigned(CU_STREAM_CAPTURE_MODE_GLOBAL));
  launch(1);
  CUdeviceptr address = 0;
  CHECK(cu("cuMemAlloc_v2", &address, size_t(16)) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(launch(1) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CUgraph graph = nullptr;
  CHECK(cu("cuStreamEndCapture", stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(graph == nullptr);
  CHECK(launch(1) == CUDA_SUCCESS);
}

TEST_CASE_METHOD(Fixture, "events order streams and measure time") {
  CUstream other = nullptr;
  CUevent begin = nullptr, end = nullptr;
  cu("cuStreamCreate", &other, unsigned(CU_STREAM_NON_BLOCKING));
  cu("cuEventCreate", &begin, 0u);
  cu("cuEventCreate", &end, 0u);
  cu("cuEventRecord", begin, stream);
  launch(5);
  cu("cuEventRecord", end, stream);
  cu("cuStreamWaitEvent", other, end, 0u);
  cu("cuMemcpyDtoHAsync_v2", pinned_memory, CUdeviceptr(buffer.address()), size_t(256), other);
  float milliseconds = -1;
  CHECK(cu("cuEventElapsedTime", &milliseconds, begin, end) == CUDA_ERROR_NOT_READY);
  cu("cuStreamSynchronize", other);
  CHECK(pinned[0] == 6);
  CHECK(cu("cuEventSynchronize", end) == CUDA_SUCCESS);
  CHECK(cu("cuEventElapsedTime", &milliseconds, begin, end) == CUDA_SUCCESS);
  CHECK(milliseconds >= 0);
  cu("cuEventDestroy_v2", begin);
  cu("cuEventDestroy_v2", end);
  cu("cuStreamDestroy_v2", other);
}

TEST_CASE_METHOD(Fixture, "attributes, globals and entry points") {
  int value = 0;
  cu("cuFuncGetAttribute", &value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add);
  CHECK(value == 64);
  CHECK(cu("cuFuncSetAttribute", add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024) ==
        CUDA_SUCCESS);
  CHECK(cu("cuFuncSetAttribute", add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 * 1024) ==
        CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr address = 0;
  size_t bytes = 0;
  REQUIRE(cu("cuModuleGetGlobal_v2", &address, &bytes, module, "counter") == CUDA_SUCCESS);
  CHECK(bytes == 4);
  uint32_t counter = 0;
  cu("cuMemcpyDtoH_v2", static_cast<void *>(&counter), address, size_t(4));
  CHECK(counter == 5);
  CUfunction missing = nullptr;
  CHECK(cu("cuModuleGetFunction", &missing, module, "nothing") == CUDA_ERROR_NOT_FOUND);
  void *entry = nullptr;
  int status = -1;
  CHECK(cu("cuGetProcAddress_v2", "cuMemAlloc", &entry, 12000, uint64_t(0), &status) == CUDA_SUCCESS);
  CHECK(entry == TestDevice::get().symbol("cuMemAlloc_v2"));
  CHECK(cu("cuGetProcAddress_v2", "cuFly", &entry, 12000, uint64_t(0), &status) == CUDA_ERROR_NOT_FOUND);
  const char *name = nullptr;
  cu("cuGetErrorName", CUDA_ERROR_ILLEGAL_ADDRESS, &name);
  CHECK(std::string(name) == "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_CASE_METHOD(Fixture, "copies and fills outside an allocation are refused") {
  CHECK(cu("cuMemsetD8Async", CUdeviceptr(buffer.address()), static_cast<unsigned char>(0), size_t(257),
           stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu("cuMemcpyDtoH_v2", pinned_memory, CUdeviceptr(buffer.address() + 4), size_t(256)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cu("cuMemFree_v2", CUdeviceptr(buffer.address() + 4)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu("cuMemsetD32Async", CUdeviceptr(buffer.address()), 7u, size_t(64), stream) == CUDA_SUCCESS);
  cu("cuStreamSynchronize", stream);
  CHECK(buffer.read<uint32_t>()[63] == 7);
}

namespace {

constexpr unsigned kMembers = 6;

/// Six CTAs, of which each writes its number, meets the others at a counter, and adds up the numbers of all.
/// `arrive` and `look` are how a CTA says that it is there, and how it looks for the others.
std::string meeting(const std::string &arrive, const std::string &look) {
  return ".version 8.3\n.target sm_90\n.address_size 64\n"
         ".visible .entry meet(.param .u64 counter, .param .u64 said, .param .u64 sums)\n{\n"
         ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
         "ld.param.u64 %rd1, [counter]; ld.param.u64 %rd2, [said]; ld.param.u64 %rd3, [sums];\n"
         "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd2, "
         "%rd4; add.u32 %r3, %r1, 1; st.global.u32 [%rd5], %r3;\n" +
         arrive + "\nPOLL: " + look +
         "\nsetp.lt.u32 %p1, %r4, %r2; @%p1 bra POLL;\n"
         "mov.u32 %r5, 0; mov.u32 %r6, 0;\n"
         "ADD: mul.wide.u32 %rd6, %r5, 4; add.s64 %rd6, %rd2, %rd6; ld.global.u32 %r7, [%rd6]; add.u32 %r6, "
         "%r6, %r7; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, %r2; @%p2 bra ADD;\n"
         "add.s64 %rd7, %rd3, %rd4; st.global.u32 [%rd7], %r6; ret;\n}\n";
}
const char *const kArrive = "red.release.gpu.global.add.u32 [%rd1], 1;";
const char *const kLook = "ld.acquire.gpu.global.u32 %r4, [%rd1];";

/// Launches it cooperatively; what the launch and then the wait for it returned.
std::pair<CUresult, CUresult> meet(const std::string &text, const DeviceBuffer &counter,
                                   const DeviceBuffer &said, const DeviceBuffer &sums) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  REQUIRE(cu("cuModuleLoadData", &module, static_cast<const void *>(text.c_str())) == CUDA_SUCCESS);
  REQUIRE(cu("cuModuleGetFunction", &function, module, "meet") == CUDA_SUCCESS);
  uint64_t addresses[] = {counter.address(), said.address(), sums.address()};
  void *params[] = {&addresses[0], &addresses[1], &addresses[2]};
  const CUresult launched = cu("cuLaunchCooperativeKernel", function, kMembers, 1u, 1u, 1u, 1u, 1u, 0u,
                               static_cast<CUstream>(nullptr), &params[0]);
  const CUresult ran = cu("cuCtxSynchronize");
  TestDevice::get().clearError();
  cu("cuModuleUnload", module);
  return {launched, ran};
}

} // namespace

TEST_CASE("the CTAs of a cooperative launch wait for each other") {
  TestDevice &device = TestDevice::get();
  const std::vector<uint32_t> zeros(kMembers, 0);
  const auto run = [&](const std::string &arrive, const std::string &look) {
    const DeviceBuffer counter = device.upload(zeros), said = device.upload(zeros),
                       sums = device.upload(zeros);
    const auto results = meet(meeting(arrive, look), counter, said, sums);
    const bool all = sums.read<uint32_t>() == std::vector<uint32_t>(kMembers, 21);
    CHECK(all == (results.first == CUDA_SUCCESS && results.second == CUDA_SUCCESS));
    return results;
  };
  using Results = std::pair<CUresult, CUresult>;
  CHECK(run(kArrive, kLook) == Results{CUDA_SUCCESS, CUDA_SUCCESS});
  // One that does not come; one that does not wait; an arrival and a look that order nothing.
  CHECK(run("setp.ne.u32 %p1, %r1, 3; @%p1 " + std::string(kArrive), kLook) ==
        Results{CUDA_SUCCESS, CUDA_ERROR_LAUNCH_TIMEOUT});
  CHECK(run(kArrive, "mov.u32 %r4, %r2;") == Results{CUDA_SUCCESS, CUDA_ERROR_LAUNCH_FAILED});
  CHECK(run("red.relaxed.gpu.global.add.u32 [%rd1], 1;", kLook) ==
        Results{CUDA_SUCCESS, CUDA_ERROR_LAUNCH_FAILED});
  CHECK(run(kArrive, "ld.relaxed.gpu.global.u32 %r4, [%rd1];") ==
        Results{CUDA_SUCCESS, CUDA_ERROR_LAUNCH_FAILED});
  // More than the device holds at once.
  const Setting none("SMELT_TEST_CUDA_MULTIPROCESSORS", "0");
  CHECK(run(kArrive, kLook) == Results{CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_SUCCESS});
}

TEST_CASE("attributes of a launch") {
  TestDevice &device = TestDevice::get();
  const DeviceBuffer sum = device.upload(std::vector<uint32_t>(1, 0));
  const auto launch = [&](const char *body, CUlaunchAttribute attribute) {
    const std::string text =
        kernelText(body + std::string(" ld.param.u64 %rd1, [p0]; ld.global.u32 %r1, [%rd1]; "
                                      "add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;"),
                   1, "", "sm_90");
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    REQUIRE(cu("cuModuleLoadData", &module, static_cast<const void *>(text.c_str())) == CUDA_SUCCESS);
    REQUIRE(cu("cuModuleGetFunction", &function, module, "k") == CUDA_SUCCESS);
    uint64_t address = sum.address();
    void *params[] = {&address};
    const CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, nullptr, &attribute, 1};
    const CUresult result =
        cu("cuLaunchKernelEx", &config, function, &params[0], static_cast<void **>(nullptr));
    CHECK(cu("cuCtxSynchronize") == CUDA_SUCCESS);
    cu("cuModuleUnload", module);
    return result;
  };
  CUlaunchAttribute overlap{}, cluster{}, other{};
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlap.value.programmaticStreamSerializationAllowed = 1;
  CHECK(launch("griddepcontrol.launch_dependents; griddepcontrol.wait;", overlap) == CUDA_SUCCESS);
  CHECK(launch("griddepcontrol.launch_dependents;", overlap) == CUDA_ERROR_INVALID_VALUE);
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {1, 1, 1};
  CHECK(launch("", cluster) == CUDA_SUCCESS);
  cluster.value.clusterDim = {2, 1, 1};
  CHECK(launch("", cluster) == CUDA_ERROR_NOT_SUPPORTED);
  other.id = static_cast<CUlaunchAttributeID>(8);
  CHECK(launch("", other) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(sum.read<uint32_t>()[0] == 2);
}
