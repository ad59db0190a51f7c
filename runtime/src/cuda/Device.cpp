#include "runtime/src/cuda/Device.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>

namespace smelt::runtime::cuda {

Result<std::shared_ptr<const Device>> Device::open(int ordinal) {
  Result<const DriverApi *> api = DriverApi::load();
  if (!api.ok()) {
    return api.takeStatus();
  }
  const DriverApi &driver = **api;
  if (ordinal >= driver.deviceCount) {
    return fail(SMELT_unsupported,
                fmt::format("there is no GPU {}; {} ({}) finds {}, numbered from 0", ordinal, driver.library,
                            driver.versionText(), driver.deviceCount));
  }
  std::shared_ptr<Device> device(new Device(driver));
  device->ordinal = ordinal;
  char name[256] = "";
  size_t total = 0;
  int values[4] = {};
  constexpr int attributes[4] = {attribute_compute_capability_major, attribute_compute_capability_minor,
                                 attribute_max_shared_memory_per_block_optin, attribute_multiprocessor_count};
  Code code = driver.deviceGet(&device->handle, ordinal);
  code = code ? code : driver.deviceGetName(name, sizeof name - 1, device->handle);
  code = code ? code : driver.deviceTotalMem(&total, device->handle);
  for (size_t i = 0; i < 4; ++i) {
    code = code ? code : driver.deviceGetAttribute(&values[i], attributes[i], device->handle);
  }
  device->name = printable(name);
  if (Status status = device->check(code, "be asked for its properties"); !status.ok()) {
    return status;
  }
  device->totalMemory = total;
  device->computeCapability = uint32_t(10 * values[0] + values[1]);
  device->sharedBytes = uint32_t(values[2]);
  device->multiprocessors = uint32_t(values[3]);
  code = driver.primaryContextRetain(&device->context, device->handle);
  if (Status status = device->check(code, "open a context"); !status.ok()) {
    device->context = nullptr;
    return status;
  }
  if (Status status = device->makeCurrent(); !status.ok()) {
    return status;
  }
  return std::shared_ptr<const Device>(std::move(device));
}

Device::~Device() {
  if (context) {
    api.primaryContextRelease(handle);
  }
}

Status Device::makeCurrent() const {
  return check(api.contextSetCurrent(context), "make its context current");
}

Status Device::check(Code code, std::string_view what) const {
  if (code == 0) {
    return success();
  }
  smelt_status status = code == error_out_of_memory                                   ? SMELT_memory
                        : code == error_no_device || code == error_device_unavailable ? SMELT_unsupported
                                                                                      : SMELT_internal;
  return fail(status, fmt::format("GPU {} ({}) cannot {}: {}", ordinal, name, what, api.errorText(code)));
}

std::string Device::describe() const {
  return fmt::format("GPU {} ({}, sm_{}, driver {})", ordinal, name, computeCapability, api.versionText());
}

Result<DeviceMemory> DeviceMemory::allocate(DevicePointer device, uint64_t bytes, std::string_view what) {
  DeviceMemory memory;
  Code code = device->api.memAlloc(&memory.base, std::max<uint64_t>(bytes, 1));
  if (Status status = device->check(code, fmt::format("allocate {} for {}", formatBytes(bytes), what));
      !status.ok()) {
    return status;
  }
  memory.length = bytes;
  memory.device = std::move(device);
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (device) {
    (void)device->makeCurrent();
    device->api.memFree(base);
  }
}

Result<PinnedMemory> PinnedMemory::allocate(DevicePointer device, uint64_t bytes, std::string_view what) {
  PinnedMemory memory;
  void *base = nullptr;
  Code code = device->api.memHostAlloc(&base, std::max<uint64_t>(bytes, 1), 0);
  if (Status status =
          device->check(code, fmt::format("pin {} of host memory for {}", formatBytes(bytes), what));
      !status.ok()) {
    return status;
  }
  memory.base = static_cast<std::byte *>(base);
  memory.length = bytes;
  memory.device = std::move(device);
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (device) {
    (void)device->makeCurrent();
    device->api.memFreeHost(base);
  }
}

Result<OwnedStream> createStream(DevicePointer device) {
  Stream stream = nullptr;
  if (Status status =
          device->check(device->api.streamCreate(&stream, stream_non_blocking), "create a stream");
      !status.ok()) {
    return status;
  }
  return OwnedStream(std::move(device), stream);
}

Result<OwnedEvent> createEvent(DevicePointer device, EventFlag flag) {
  Event event = nullptr;
  if (Status status = device->check(device->api.eventCreate(&event, flag), "create an event"); !status.ok()) {
    return status;
  }
  return OwnedEvent(std::move(device), event);
}

} // namespace smelt::runtime::cuda
