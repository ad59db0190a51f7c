// A GPU with a stream, two events and whatever kernels a measurement brings along.
#pragma once

#include "runtime/src/cuda/Module.h"
#include "tests/gpu/Check.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace smelt::gpu {

template <typename T> T take(runtime::Result<T> result) {
  if (!result.ok()) {
    throw std::runtime_error(result.status().message);
  }
  return std::move(*result);
}
void check(const runtime::Status &status);

// Blocks and threads of a launch along x, and the dynamic shared memory of a block, in bytes.
struct LaunchShape {
  unsigned blocks = 1, threads = 1, sharedBytes = 0;
};

class Bench {
public:
  explicit Bench(const std::string &name);

  // PTX that the driver assembles.
  runtime::cuda::OwnedModule load(const char *ptx) const;
  runtime::cuda::Function function(const runtime::cuda::OwnedModule &module, const char *name) const;
  runtime::cuda::DeviceMemory allocate(uint64_t bytes) const;
  // The next four put work on the stream.
  void launch(runtime::cuda::Function kernel, const LaunchShape &shape, void **parameters) const;
  void set(const runtime::cuda::DeviceMemory &memory, unsigned char value) const;
  void upload(const runtime::cuda::DeviceMemory &to, const void *from, uint64_t bytes) const;
  void replay(const runtime::cuda::OwnedGraphExec &graph) const;
  // What `enqueue` puts on the stream, as a graph.
  runtime::cuda::OwnedGraphExec capture(const std::function<void()> &enqueue) const;

  // Waits for the stream.
  void wait() const;
  template <typename T> std::vector<T> download(const runtime::cuda::DeviceMemory &from) const {
    std::vector<T> values(from.size() / sizeof(T));
    downloadBytes(values.data(), from, values.size() * sizeof(T));
    return values;
  }
  // Seconds of the GPU for what `work` puts on the stream: the median of some runs after one to warm up.
  double time(const std::function<void()> &work, int runs = 11) const;

  void expect(runtime::cuda::Code code, const char *what) const { check(device->check(code, what)); }
  unsigned multiprocessors() const { return std::max(1U, device->multiprocessors); }

  runtime::cuda::DevicePointer device;
  runtime::cuda::OwnedStream stream;

private:
  void downloadBytes(void *to, const runtime::cuda::DeviceMemory &from, uint64_t bytes) const;
  runtime::cuda::OwnedEvent begin, end;
};

// "1 block", "4 blocks"
std::string counted(uint64_t count, const std::string &what);

// Says, and keeps in `results`, that something is not measured here.
void skip(nlohmann::ordered_json &results, const std::string &what, const std::string &why);

} // namespace smelt::gpu
