// When a step becomes a graph, and that the graph is what runs from then on.
#include "runtime/src/cuda/GraphCache.h"
#include "tests/runtime/CudaSession.h"

using namespace smelt::tests;
using namespace smelt::runtime;
using namespace smelt::runtime::cuda;

namespace {

struct Fixture {
  Variable library{"SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA};
  DevicePointer device = *Device::open(0);
  OwnedStream stream = std::move(*createStream(device));
  DeviceMemory memory = std::move(*DeviceMemory::allocate(device, 64, "a test"));
  PinnedMemory host = std::move(*PinnedMemory::allocate(device, 64, "a test"));
  GraphCache graphs{device, stream.get()};
  int enqueued = 0;

  Status enqueue() {
    ++enqueued;
    Status status =
        device->check(device->api.memcpyToDevice(memory.address(), host.data(), 64, stream.get()), "copy");
    return status.ok()
               ? device->check(device->api.memcpyToHost(host.data() + 32, memory.address(), 32, stream.get()),
                               "copy")
               : status;
  }
  GraphExec find(const Extent &step) {
    auto graph = graphs.find(step, 0, [&] { return enqueue(); });
    REQUIRE(graph.ok());
    return *graph;
  }
};

} // namespace

TEST_CASE_METHOD(Fixture, "A step is captured when it comes a second time and replayed from then on") {
  Extent step{3, 1, 1, 16};
  CHECK(find(step) == nullptr);
  CHECK(enqueued == 0);
  GraphExec graph = find(step);
  CHECK(graph != nullptr);
  CHECK(enqueued == 1);
  CHECK(find(step) == graph);
  CHECK(enqueued == 1);
  // Another number of rows is another graph.
  CHECK(find({3, 2, 1, 16}) == nullptr);
  CHECK(find({3, 2, 1, 16}) != graph);
  // What the graph copies is what the memory holds when it runs, not when it was captured.
  for (int value : {1, 2}) {
    std::fill_n(host.data(), 64, std::byte(value));
    std::fill_n(host.data() + 32, 32, std::byte(0));
    REQUIRE(device->api.graphLaunch(graph, stream.get()) == 0);
    REQUIRE(device->api.streamSynchronize(stream.get()) == 0);
    CHECK(host.data()[32] == std::byte(value));
  }
}

TEST_CASE_METHOD(Fixture, "A step that cannot be captured fails and leaves the stream usable") {
  Extent step{1, 1, 1, 16};
  CHECK(find(step) == nullptr);
  auto failed = graphs.find(step, 0, [&] { return fail(SMELT_internal, "no"); });
  REQUIRE(!failed.ok());
  CHECK(failed.status().message == "no");
  CHECK(find(step) != nullptr);
}

TEST_CASE_METHOD(Fixture, "Graphs that were not used for long make room") {
  Extent first{1, 1, 1, 16};
  find(first);
  find(first);
  for (uint64_t tokens = 2; tokens < 400; ++tokens) {
    find({tokens, 1, 1, 16});
  }
  CHECK(find(first) == nullptr); // forgotten, so new
}
