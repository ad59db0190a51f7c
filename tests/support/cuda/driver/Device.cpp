// Initialisation, devices, contexts, error texts, entry points by name.
#include "tests/support/cuda/driver/State.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace smelt::emu;

namespace {

struct ErrorText {
  CUresult code;
  const char *name, *text;
};
#define SMELT_ERROR(name, text)                                                                              \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    SMELT_ERROR(CUDA_SUCCESS, "no error"),
    SMELT_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    SMELT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    SMELT_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    SMELT_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    SMELT_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    SMELT_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    SMELT_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    SMELT_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    SMELT_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    SMELT_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                "the provided PTX was compiled with an unsupported toolchain"),
    SMELT_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    SMELT_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    SMELT_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    SMELT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    SMELT_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    SMELT_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    SMELT_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    SMELT_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    SMELT_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    SMELT_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    SMELT_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    SMELT_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    SMELT_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                "operation failed due to a previous error during capture"),
    SMELT_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE,
                "operation would result in a merge of separate capture sequences"),
    SMELT_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    SMELT_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    SMELT_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef SMELT_ERROR

const ErrorText *findError(CUresult code) {
  for (const ErrorText &error : kErrors) {
    if (error.code == code) {
      return &error;
    }
  }
  return nullptr;
}

CUctx_st *primaryContext() { return reinterpret_cast<CUctx_st *>(&Driver::get()); }

bool badDevice(CUdevice device) { return device < 0 || device >= deviceIdentity().devices; }

/// Values for attributes whose answer does not depend on the environment; -1 if there is none.
int fixedAttribute(int attribute) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
    return 64;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    return 0x7fffffff;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    return 65535;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    return 48 * 1024;
  case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    return 64 * 1024;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
    return 32;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    return 65536;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    return 1980000;
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    return 1;
  case CU_DEVICE_ATTRIBUTE_INTEGRATED:
  case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
  case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
  case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
  case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    return 0;
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
    return 3201000;
  case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
    return 6144;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    return 60 << 20;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    return 2048;
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    return 3;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
    return 1024;
  default:
    return -1;
  }
}

} // namespace

SMELT_CUDA_EXPORT CUresult cuInit(unsigned flags) {
  auto &driver = Driver::get();
  const std::lock_guard lock(driver.mutex);
  if (flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (deviceIdentity().devices < 1) {
    return CUDA_ERROR_NO_DEVICE;
  }
  driver.initialised = true;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = deviceIdentity().driver_version;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuDeviceGetCount(int *count) {
  *count = deviceIdentity().devices;
  return Driver::get().initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

SMELT_CUDA_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  if (!Driver::get().initialised) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  *device = ordinal;
  return badDevice(ordinal) ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  if (badDevice(device) || length < 1) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  std::snprintf(name, static_cast<size_t>(length), "%s", deviceIdentity().name.c_str());
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  std::memset(uuid, 0, sizeof *uuid);
  uuid->bytes[15] = static_cast<char>(device);
  return badDevice(device) ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
SMELT_CUDA_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  return cuDeviceGetUuid(uuid, device);
}

SMELT_CUDA_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  if (badDevice(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  const DeviceIdentity identity = deviceIdentity();
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = static_cast<int>(identity.sm / 10);
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *value = static_cast<int>(identity.sm % 10);
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *value = identity.multiprocessors;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    *value = static_cast<int>(identity.shared_optin);
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    *value = static_cast<int>(identity.shared_optin + 1024);
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    *value = identity.sm >= 90;
    return CUDA_SUCCESS;
  default:
    *value = fixedAttribute(attribute);
    return *value < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
}

SMELT_CUDA_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  *bytes = deviceIdentity().memory_bytes;
  return badDevice(device) ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  auto &driver = Driver::get();
  const std::lock_guard lock(driver.mutex);
  if (!driver.initialised) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  if (badDevice(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  ++driver.context_references;
  *context = primaryContext();
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  auto &driver = Driver::get();
  const std::lock_guard lock(driver.mutex);
  if (badDevice(device) || driver.context_references == 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (--driver.context_references == 0) {
    driver.drainAll();
    driver.sticky = CUDA_SUCCESS; // a new context starts without the old one's fault
  }
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  auto &driver = Driver::get();
  const std::lock_guard lock(driver.mutex);
  driver.context_current = context != nullptr;
  return !context || context == primaryContext() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SMELT_CUDA_EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  auto &driver = Driver::get();
  const std::lock_guard lock(driver.mutex);
  *context = driver.context_current ? primaryContext() : nullptr;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) { return cuCtxSetCurrent(context); }
SMELT_CUDA_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  if (context) {
    cuCtxGetCurrent(context);
  }
  return cuCtxSetCurrent(nullptr);
}
SMELT_CUDA_EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
  SMELT_CUDA_ENTER
  *device = 0;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuCtxSynchronize() {
  SMELT_CUDA_ENTER_UNCAPTURED
  return driver.drainAll();
}

SMELT_CUDA_EXPORT CUresult cuGetErrorName(CUresult code, const char **name) {
  const ErrorText *error = findError(code);
  *name = error ? error->name : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SMELT_CUDA_EXPORT CUresult cuGetErrorString(CUresult code, const char **text) {
  const ErrorText *error = findError(code);
  *text = error ? error->text : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Finds an entry point by its base name; the newest version wins, as with a current driver.
SMELT_CUDA_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                               uint64_t flags, int *status) {
  Dl_info self;
  dladdr(reinterpret_cast<void *>(&cuInit), &self);
  void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  void *found = nullptr;
  for (const char *suffix : {"_v3", "_v2", ""}) {
    if (!found && library) {
      found = dlsym(library, (std::string(symbol) + suffix).c_str());
    }
  }
  if (library) {
    dlclose(library);
  }
  *function = found;
  if (status) {
    *status = found ? 0 : 1; // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  }
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
