// What the GPU can do at most, by kernels written for nothing else.
#include "runtime/src/cuda/CudaRunner.h"
#include "runtime/src/cuda/GraphCache.h"
#include "tests/gpu/Check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace smelt::gpu {
namespace {

using namespace runtime;
using namespace runtime::cuda;

// read: every thread reads 16 bytes at a time, four loads in flight, a whole grid apart; the sum is stored
// only if it is a number that no memory adds up to, so that the loads stay. nothing: a node that does
// nothing.
constexpr const char *ptx = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry read(.param .u64 from, .param .u64 count, .param .u64 to)
{
    .reg .pred %p<4>;
    .reg .b32 %r<24>;
    .reg .b64 %rd<16>;
    ld.param.u64 %rd1, [from];
    cvta.to.global.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [count];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    cvt.u64.u32 %rd3, %r4;
    mov.u32 %r5, %nctaid.x;
    mul.wide.u32 %rd4, %r5, %r2;
    mov.u32 %r20, 0;
    shl.b64 %rd9, %rd4, 4;
next:
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra done;
    shl.b64 %rd5, %rd3, 4;
    add.s64 %rd5, %rd1, %rd5;
    add.s64 %rd6, %rd5, %rd9;
    add.s64 %rd7, %rd6, %rd9;
    add.s64 %rd8, %rd7, %rd9;
    ld.global.nc.v4.u32 {%r6, %r7, %r8, %r9}, [%rd5];
    ld.global.nc.v4.u32 {%r10, %r11, %r12, %r13}, [%rd6];
    xor.b32 %r20, %r20, %r6;
    xor.b32 %r20, %r20, %r7;
    xor.b32 %r20, %r20, %r8;
    xor.b32 %r20, %r20, %r9;
    ld.global.nc.v4.u32 {%r6, %r7, %r8, %r9}, [%rd7];
    xor.b32 %r20, %r20, %r10;
    xor.b32 %r20, %r20, %r11;
    xor.b32 %r20, %r20, %r12;
    xor.b32 %r20, %r20, %r13;
    ld.global.nc.v4.u32 {%r10, %r11, %r12, %r13}, [%rd8];
    xor.b32 %r20, %r20, %r6;
    xor.b32 %r20, %r20, %r7;
    xor.b32 %r20, %r20, %r8;
    xor.b32 %r20, %r20, %r9;
    xor.b32 %r20, %r20, %r10;
    xor.b32 %r20, %r20, %r11;
    xor.b32 %r20, %r20, %r12;
    xor.b32 %r20, %r20, %r13;
    shl.b64 %rd10, %rd4, 2;
    add.s64 %rd3, %rd3, %rd10;
    bra next;
done:
    setp.ne.u32 %p2, %r20, 0x5bd1e995;
    @%p2 bra end;
    ld.param.u64 %rd11, [to];
    cvta.to.global.u64 %rd11, %rd11;
    st.global.u32 [%rd11], %r20;
end:
    ret;
}

.visible .entry nothing(.param .u64 to)
{
    ret;
}
)";

template <typename T> T take(Result<T> result) {
  if (!result.ok()) {
    throw std::runtime_error(result.status().message);
  }
  return std::move(*result);
}
void check(const Status &status) {
  if (!status.ok()) {
    throw std::runtime_error(status.message);
  }
}

class Bench {
public:
  explicit Bench(const std::string &name)
      : device(take(Device::open(parseDevice(name).value_or(0)))), stream(take(createStream(device))),
        module(take(loadImage(device, ptx, "the kernels that measure its limits"))),
        begin(take(createEvent(device, event_default))), end(take(createEvent(device, event_default))) {}

  Function function(const char *name) {
    Function found = nullptr;
    check(device->check(device->api.moduleGetFunction(&found, module.get(), name), "find a kernel"));
    return found;
  }
  void launch(Function kernel, unsigned blocks, unsigned threads, void **parameters) {
    check(device->check(
        device->api.launchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream.get(), parameters, nullptr),
        "launch a kernel"));
  }
  // Seconds of the GPU for `work`, the median of some runs after one to warm up.
  template <typename Work> double time(Work work, int runs = 11) {
    std::vector<double> seconds;
    for (int run = 0; run <= runs; ++run) {
      check(device->check(device->api.eventRecord(begin.get(), stream.get()), "record an event"));
      work();
      check(device->check(device->api.eventRecord(end.get(), stream.get()), "record an event"));
      check(device->check(device->api.eventSynchronize(end.get()), "run"));
      float milliseconds = 0;
      check(device->check(device->api.eventElapsedTime(&milliseconds, begin.get(), end.get()),
                          "read an event"));
      if (run) {
        seconds.push_back(std::max(1e-9, double(milliseconds) * 1e-3));
      }
    }
    return median(seconds);
  }

  DevicePointer device;
  OwnedStream stream;
  OwnedModule module;
  OwnedEvent begin, end;
};

double readRate(Bench &bench, uint64_t bytes, nlohmann::ordered_json &results) {
  constexpr unsigned threads = 512;
  DeviceMemory memory = take(DeviceMemory::allocate(bench.device, bytes, "measuring"));
  DeviceMemory result = take(DeviceMemory::allocate(bench.device, 4, "measuring"));
  check(bench.device->check(bench.device->api.memsetBytes(memory.address(), 1, bytes, bench.stream.get()),
                            "set"));
  Function read = bench.function("read");
  double best = 0;
  for (unsigned perProcessor : {1u, 2u, 4u}) {
    // A small memory has no work for a whole grid.
    uint64_t most = std::max<uint64_t>(1, bytes / (uint64_t(16) * threads * 4));
    auto blocks =
        unsigned(std::min<uint64_t>(most, perProcessor * std::max(1u, bench.device->multiprocessors)));
    // Only whole rounds of four loads, so that no thread reads past the end.
    uint64_t round = uint64_t(blocks) * threads * 4;
    uint64_t count = bytes / 16 / round * round;
    if (count == 0) {
      continue;
    }
    DevicePtr from = memory.address(), to = result.address();
    void *parameters[] = {&from, &count, &to};
    double seconds = bench.time([&] { bench.launch(read, blocks, threads, parameters); });
    double rate = double(count * 16) / seconds;
    fmt::print("  read {:>5} MiB, {} blocks a multiprocessor: {:.1f} GB/s\n", count * 16 >> 20, perProcessor,
               rate * 1e-9);
    results.push_back(
        {{"bytes", count * 16}, {"blocks_per_multiprocessor", perProcessor}, {"bytes_per_second", rate}});
    best = std::max(best, rate);
  }
  return best;
}

double nodeSeconds(Bench &bench) {
  constexpr int nodes = 270; // six kernels in each of 45 layers
  Function nothing = bench.function("nothing");
  DevicePtr to = 0;
  void *parameters[] = {&to};
  GraphCache graphs(bench.device, bench.stream.get());
  auto enqueue = [&] {
    for (int i = 0; i < nodes; ++i) {
      bench.launch(nothing, std::max(1u, bench.device->multiprocessors), 256, parameters);
    }
    return success();
  };
  Extent step{1, 1, 1, 1};
  (void)take(graphs.find(step, 0, enqueue)); // the first time it only remembers the step
  GraphExec graph = take(graphs.find(step, 0, enqueue));
  return bench.time([&] {
    check(bench.device->check(bench.device->api.graphLaunch(graph, bench.stream.get()), "launch a graph"));
  }) / nodes;
}

} // namespace

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Limits measureLimits(const std::string &device, uint64_t bytes, nlohmann::ordered_json &results) {
  Bench bench(device);
  fmt::print("{}\n", bench.device->describe());
  results["gpu"] = {{"name", bench.device->name},
                    {"compute_capability", bench.device->computeCapability},
                    {"memory", bench.device->totalMemory},
                    {"multiprocessors", bench.device->multiprocessors},
                    {"driver", bench.device->api.version}};
  Limits limits;
  limits.readBytesPerSecond = readRate(bench, bytes, results["reads"]);
  limits.secondsPerGraphNode = nodeSeconds(bench);
  fmt::print("  a node of a graph: {:.2f} us\n", limits.secondsPerGraphNode * 1e6);
  results["seconds_per_graph_node"] = limits.secondsPerGraphNode;
  return limits;
}

} // namespace smelt::gpu
