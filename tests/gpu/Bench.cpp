#include "tests/gpu/Bench.h"

#include "runtime/src/cuda/CudaRunner.h"

#include <fmt/format.h>

namespace smelt::gpu {

using namespace runtime;
using namespace runtime::cuda;

void check(const Status &status) {
  if (!status.ok()) {
    throw std::runtime_error(status.message);
  }
}

Bench::Bench(const std::string &name)
    : device(take(Device::open(parseDevice(name).value_or(0)))), stream(take(createStream(device))),
      begin(take(createEvent(device, event_default))), end(take(createEvent(device, event_default))) {}

OwnedModule Bench::load(const char *ptx) const {
  return take(loadImage(device, ptx, "the kernels that measure its limits"));
}

Function Bench::function(const OwnedModule &module, const char *name) const {
  Function found = nullptr;
  expect(device->api.moduleGetFunction(&found, module.get(), name), "find a kernel");
  return found;
}

DeviceMemory Bench::allocate(uint64_t bytes) const {
  return take(DeviceMemory::allocate(device, bytes, "measuring"));
}

void Bench::launch(Function kernel, const LaunchShape &shape, void **parameters) const {
  expect(device->api.launchKernel(kernel, shape.blocks, 1, 1, shape.threads, 1, 1, shape.sharedBytes,
                                  stream.get(), parameters, nullptr),
         "launch a kernel");
}

void Bench::set(const DeviceMemory &memory, unsigned char value) const {
  expect(device->api.memsetBytes(memory.address(), value, memory.size(), stream.get()), "set memory");
}

void Bench::upload(const DeviceMemory &to, const void *from, uint64_t bytes) const {
  expect(device->api.memcpyToDevice(to.address(), from, bytes, stream.get()), "copy to it");
}

void Bench::replay(const OwnedGraphExec &graph) const {
  expect(device->api.graphLaunch(graph.get(), stream.get()), "launch a graph");
}

OwnedGraphExec Bench::capture(const std::function<void()> &enqueue) const {
  expect(device->api.streamBeginCapture(stream.get(), capture_mode_thread_local), "begin to capture");
  std::exception_ptr problem;
  try {
    enqueue();
  } catch (...) {
    problem = std::current_exception(); // the capture ends all the same
  }
  Graph handle = nullptr;
  Code code = device->api.streamEndCapture(stream.get(), &handle);
  OwnedGraph graph(device, handle);
  if (problem) {
    std::rethrow_exception(problem);
  }
  expect(code, "capture");
  GraphExec exec = nullptr;
  expect(device->api.graphInstantiate(&exec, graph.get(), 0), "make a graph");
  return {device, exec};
}

void Bench::wait() const { expect(device->api.streamSynchronize(stream.get()), "run"); }

void Bench::downloadBytes(void *to, const DeviceMemory &from, uint64_t bytes) const {
  expect(device->api.memcpyToHost(to, from.address(), bytes, stream.get()), "copy from it");
  wait();
}

double Bench::time(const std::function<void()> &work, int runs) const {
  std::vector<double> seconds;
  for (int run = 0; run <= runs; ++run) {
    expect(device->api.eventRecord(begin.get(), stream.get()), "record an event");
    work();
    expect(device->api.eventRecord(end.get(), stream.get()), "record an event");
    expect(device->api.eventSynchronize(end.get()), "run");
    float milliseconds = 0;
    expect(device->api.eventElapsedTime(&milliseconds, begin.get(), end.get()), "read an event");
    if (run) {
      seconds.push_back(std::max(1e-9, double(milliseconds) * 1e-3));
    }
  }
  return median(seconds);
}

std::string counted(uint64_t count, const std::string &what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void skip(nlohmann::ordered_json &results, const std::string &what, const std::string &why) {
  fmt::print("  skipped: {}: {}\n", what, why);
  results["skipped"].push_back({{"what", what}, {"why", why}});
}

} // namespace smelt::gpu
