// One GPU: its properties, its context, and memory on it.
#pragma once

#include "runtime/src/cuda/DriverApi.h"

#include <memory>
#include <string_view>

namespace smelt::runtime::cuda {

class Device {
public:
  // Opens the GPU and makes its primary context current. SMELT_unsupported: no driver, or no such GPU.
  static Result<std::shared_ptr<const Device>> open(int ordinal);
  ~Device();

  // The context, for the calling thread; every function of the driver below works on it.
  Status makeCurrent() const;
  // Success, or what the driver could not do: "GPU 0 (NVIDIA H200) cannot WHAT: CUDA_ERROR_...".
  // SMELT_memory when memory ran out, SMELT_unsupported when the GPU is not to be had, else SMELT_internal.
  Status check(Code code, std::string_view what) const;
  // "GPU 0 (NVIDIA H200, sm_90, driver CUDA 13.0)"
  std::string describe() const;

  const DriverApi &api;
  int ordinal = 0;
  std::string name;
  uint32_t computeCapability = 0; // major * 10 + minor
  uint64_t totalMemory = 0;       // bytes
  uint32_t sharedBytes = 0;       // dynamic shared memory a block may ask for
  uint32_t multiprocessors = 0;

private:
  explicit Device(const DriverApi &api) : api(api) {}

  DeviceHandle handle = 0;
  Context context = nullptr;
};
using DevicePointer = std::shared_ptr<const Device>;

// Memory of the GPU, freed on destruction. Not zeroed.
class DeviceMemory {
public:
  // `what` names it in messages. 0 bytes give a valid address.
  static Result<DeviceMemory> allocate(DevicePointer device, uint64_t bytes, std::string_view what);

  DeviceMemory() = default;
  DeviceMemory(DeviceMemory &&other) noexcept { *this = std::move(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    std::swap(device, other.device);
    std::swap(base, other.base);
    std::swap(length, other.length);
    return *this;
  }
  ~DeviceMemory();

  DevicePtr address() const { return base; }
  uint64_t size() const { return length; }

private:
  DevicePointer device;
  DevicePtr base = 0;
  uint64_t length = 0;
};

// Memory of the host that the GPU copies from and to without the help of a CPU, freed on destruction.
class PinnedMemory {
public:
  static Result<PinnedMemory> allocate(DevicePointer device, uint64_t bytes, std::string_view what);

  PinnedMemory() = default;
  PinnedMemory(PinnedMemory &&other) noexcept { *this = std::move(other); }
  PinnedMemory &operator=(PinnedMemory &&other) noexcept {
    std::swap(device, other.device);
    std::swap(base, other.base);
    std::swap(length, other.length);
    return *this;
  }
  ~PinnedMemory();

  std::byte *data() const { return base; }
  uint64_t size() const { return length; }

private:
  DevicePointer device;
  std::byte *base = nullptr;
  uint64_t length = 0;
};

// A handle of the driver with the function that destroys it.
template <typename Handle, Code (*DriverApi::*destroy)(Handle)> class Owned {
public:
  Owned() = default;
  Owned(DevicePointer device, Handle handle) : device(std::move(device)), handle(handle) {}
  Owned(Owned &&other) noexcept { *this = std::move(other); }
  Owned &operator=(Owned &&other) noexcept {
    std::swap(device, other.device);
    std::swap(handle, other.handle);
    return *this;
  }
  ~Owned() {
    if (handle) {
      (void)device->makeCurrent();
      (device->api.*destroy)(handle);
    }
  }
  Handle get() const { return handle; }
  explicit operator bool() const { return handle != nullptr; }

private:
  DevicePointer device;
  Handle handle = nullptr;
};
using OwnedStream = Owned<Stream, &DriverApi::streamDestroy>;
using OwnedEvent = Owned<Event, &DriverApi::eventDestroy>;
using OwnedGraph = Owned<Graph, &DriverApi::graphDestroy>;
using OwnedGraphExec = Owned<GraphExec, &DriverApi::graphExecDestroy>;
using OwnedModule = Owned<ModuleHandle, &DriverApi::moduleUnload>;

Result<OwnedStream> createStream(DevicePointer device);
Result<OwnedEvent> createEvent(DevicePointer device, EventFlag flag);

} // namespace smelt::runtime::cuda
