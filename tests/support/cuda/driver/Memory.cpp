// Memory: allocation, copies, fills.
#include "tests/support/cuda/driver/State.h"

#include <cstring>

using namespace smelt::emu;

namespace {

bool isPinned(const void *host, size_t bytes) {
  const Allocation *allocation = deviceMemory().find(reinterpret_cast<uint64_t>(host), bytes);
  return allocation && allocation->pinned;
}

CUresult outside(const char *call, CUdeviceptr address, size_t bytes) {
  logLine(format("%s of %zu bytes at 0x%llx: %s", call, bytes, static_cast<unsigned long long>(address),
                 deviceMemory().describe(address).c_str()));
  return CUDA_ERROR_INVALID_VALUE;
}

void copyBytes(void *to, const void *from, size_t bytes) { std::memcpy(to, from, bytes); }

/// The copy as work: addresses are looked up when it runs, so that a freed buffer is noticed.
WorkFn copyWork(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return [=] {
    uint8_t *target = deviceRange(to, bytes, true);
    const uint8_t *source = deviceRange(from, bytes, false);
    if (!target || !source) {
      logLine("a queued copy touches memory that was freed");
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    std::memmove(target, source, bytes);
    return CUDA_SUCCESS;
  };
}

} // namespace

SMELT_CUDA_EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  SMELT_CUDA_ENTER
  *total = deviceIdentity().memory_bytes;
  const uint64_t used = deviceMemory().used();
  *free = *total > used ? *total - used : 0;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  SMELT_CUDA_ENTER_UNCAPTURED
  if (bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  deviceMemory().configure(deviceIdentity().memory_bytes, simOptions().track_writes);
  const Allocation *allocation = deviceMemory().allocate(bytes);
  *address = allocation ? allocation->begin : 0;
  return allocation ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SMELT_CUDA_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  SMELT_CUDA_ENTER_UNCAPTURED
  if (address == 0) {
    return CUDA_SUCCESS;
  }
  const CUresult result = driver.drainAll();
  if (!deviceMemory().release(address, false)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return result;
}

SMELT_CUDA_EXPORT CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned flags) {
  SMELT_CUDA_ENTER_UNCAPTURED
  const Allocation *allocation = bytes ? deviceMemory().allocateHost(bytes) : nullptr;
  *host = allocation ? allocation->host : nullptr;
  return allocation ? CUDA_SUCCESS : bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}
SMELT_CUDA_EXPORT CUresult cuMemAllocHost_v2(void **host, size_t bytes) {
  return cuMemHostAlloc(host, bytes, 0);
}

SMELT_CUDA_EXPORT CUresult cuMemFreeHost(void *host) {
  SMELT_CUDA_ENTER_UNCAPTURED
  driver.drainAll();
  return deviceMemory().release(reinterpret_cast<uint64_t>(host), true) ? driver.sticky
                                                                        : CUDA_ERROR_INVALID_VALUE;
}

SMELT_CUDA_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags) {
  SMELT_CUDA_ENTER
  *address = reinterpret_cast<CUdeviceptr>(host);
  return isPinned(host, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SMELT_CUDA_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *begin, size_t *bytes, CUdeviceptr address) {
  SMELT_CUDA_ENTER
  const Allocation *allocation = deviceMemory().find(address);
  if (!allocation) {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (begin) {
    *begin = allocation->begin;
  }
  if (bytes) {
    *bytes = allocation->bytes;
  }
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                                CUstream stream) {
  SMELT_CUDA_ENTER
  if (bytes == 0) {
    return CUDA_SUCCESS;
  }
  if (!deviceRange(to, bytes, false)) {
    return outside("copy to the device", to, bytes);
  }
  // Page-locked memory is read when the copy runs; from other memory the driver takes a copy at once.
  if (isPinned(from, bytes)) {
    return driver.enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                          copyWork(to, reinterpret_cast<CUdeviceptr>(from), bytes));
  }
  const CUstream state = driver.stream(stream);
  if (state && state->capture) { // a graph reads its source at each launch, whatever memory it is
    return driver.enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, [=] {
      uint8_t *target = deviceRange(to, bytes, true);
      if (!target) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
      }
      copyBytes(target, from, bytes);
      return CUDA_SUCCESS;
    });
  }
  const auto *data = static_cast<const uint8_t *>(from);
  return driver.enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                        [=, staged = std::vector<uint8_t>(data, data + bytes)] {
                          uint8_t *target = deviceRange(to, bytes, true);
                          if (!target) {
                            return CUDA_ERROR_ILLEGAL_ADDRESS;
                          }
                          copyBytes(target, staged.data(), bytes);
                          return CUDA_SUCCESS;
                        });
}

SMELT_CUDA_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  SMELT_CUDA_ENTER
  if (bytes == 0) {
    return CUDA_SUCCESS;
  }
  if (!deviceRange(from, bytes, false)) {
    return outside("copy from the device", from, bytes);
  }
  if (isPinned(to, bytes)) {
    return driver.enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                          copyWork(reinterpret_cast<CUdeviceptr>(to), from, bytes));
  }
  const CUresult queued = driver.enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, [=] {
    const uint8_t *source = deviceRange(from, bytes, false);
    if (!source) {
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    copyBytes(to, source, bytes);
    return CUDA_SUCCESS;
  });
  // Into memory that is not page-locked the call returns when the data is there.
  const CUstream state = driver.stream(stream);
  return queued != CUDA_SUCCESS || state->capture ? queued : driver.drain(state);
}

SMELT_CUDA_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                                CUstream stream) {
  SMELT_CUDA_ENTER
  if (bytes == 0) {
    return CUDA_SUCCESS;
  }
  if (!deviceRange(to, bytes, false)) {
    return outside("copy to the device", to, bytes);
  }
  if (!deviceRange(from, bytes, false)) {
    return outside("copy from the device", from, bytes);
  }
  return driver.enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, copyWork(to, from, bytes));
}

namespace {

/// A synchronous call is the asynchronous one on the default stream, and a wait.
template <class Fn> CUresult synchronously(Fn queue) {
  SMELT_CUDA_ENTER_UNCAPTURED
  const CUresult queued = queue();
  return queued != CUDA_SUCCESS ? queued : driver.drain(&driver.legacy);
}

CUresult fill(CUdeviceptr to, size_t count, size_t width, uint32_t value, CUstream stream) {
  SMELT_CUDA_ENTER
  const size_t bytes = count * width;
  if (bytes == 0) {
    return CUDA_SUCCESS;
  }
  if (to % width) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!deviceRange(to, bytes, false)) {
    return outside("fill", to, bytes);
  }
  return driver.enqueue(stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] {
    uint8_t *target = deviceRange(to, bytes, true);
    if (!target) {
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (size_t i = 0; i < bytes; i += width) {
      std::memcpy(target + i, &value, width);
    }
    return CUDA_SUCCESS;
  });
}

} // namespace

SMELT_CUDA_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return synchronously([=] { return cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr); });
}
SMELT_CUDA_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return synchronously([=] { return cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr); });
}
SMELT_CUDA_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return synchronously([=] { return cuMemcpyDtoDAsync_v2(to, from, bytes, nullptr); });
}
SMELT_CUDA_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                           CUstream stream) {
  return fill(to, count, 1, value, stream);
}
SMELT_CUDA_EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                            CUstream stream) {
  return fill(to, count, 2, value, stream);
}
SMELT_CUDA_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill(to, count, 4, value, stream);
}
SMELT_CUDA_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return synchronously([=] { return fill(to, count, 1, value, nullptr); });
}
SMELT_CUDA_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  return synchronously([=] { return fill(to, count, 4, value, nullptr); });
}
