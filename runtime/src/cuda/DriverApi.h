// The CUDA driver API, as far as it is used here, found with dlopen when a GPU is asked for: one binary runs
// with and without a GPU. Types and constants are declared here, so no CUDA header is needed; the names and
// values are those of cuda.h, which the driver keeps stable.
#pragma once

#include "runtime/src/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace smelt::runtime::cuda {

using Code = int;           // CUresult
using DevicePtr = uint64_t; // CUdeviceptr
using DeviceHandle = int;   // CUdevice
struct ContextTag;          // CUctx_st
struct ModuleTag;           // CUmod_st
struct FunctionTag;         // CUfunc_st
struct StreamTag;           // CUstream_st
struct EventTag;            // CUevent_st
struct GraphTag;            // CUgraph_st
struct GraphExecTag;        // CUgraphExec_st
using Context = ContextTag *;
using ModuleHandle = ModuleTag *;
using Function = FunctionTag *;
using Stream = StreamTag *;
using Event = EventTag *;
using Graph = GraphTag *;
using GraphExec = GraphExecTag *;

enum ErrorCode : Code {
  error_out_of_memory = 2,
  error_device_unavailable = 46,
  error_no_device = 100,
  error_unknown = 999,
};
enum DeviceAttribute : int {
  attribute_multiprocessor_count = 16,
  attribute_compute_capability_major = 75,
  attribute_compute_capability_minor = 76,
  attribute_max_shared_memory_per_block_optin = 97,
};
enum FunctionAttribute : int { function_max_dynamic_shared_bytes = 8 };
enum JitOption : int { jit_error_log_buffer = 5, jit_error_log_buffer_size_bytes = 6 };
enum StreamFlag : unsigned { stream_non_blocking = 1 };
enum EventFlag : unsigned { event_default = 0, event_disable_timing = 2 };
enum CaptureMode : int { capture_mode_thread_local = 1 };

// X(member, symbol, parameters): every function returns a Code.
#define SMELT_CUDA_DRIVER_API(X)                                                                             \
  X(init, "cuInit", (unsigned flags))                                                                        \
  X(driverGetVersion, "cuDriverGetVersion", (int *version))                                                  \
  X(getErrorName, "cuGetErrorName", (Code code, const char **name))                                          \
  X(getErrorString, "cuGetErrorString", (Code code, const char **text))                                      \
  X(deviceGetCount, "cuDeviceGetCount", (int *count))                                                        \
  X(deviceGet, "cuDeviceGet", (DeviceHandle * device, int ordinal))                                          \
  X(deviceGetName, "cuDeviceGetName", (char *name, int size, DeviceHandle device))                           \
  X(deviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, DeviceHandle device))            \
  X(deviceTotalMem, "cuDeviceTotalMem_v2", (size_t *bytes, DeviceHandle device))                             \
  X(primaryContextRetain, "cuDevicePrimaryCtxRetain", (Context * context, DeviceHandle device))              \
  X(primaryContextRelease, "cuDevicePrimaryCtxRelease_v2", (DeviceHandle device))                            \
  X(contextSetCurrent, "cuCtxSetCurrent", (Context context))                                                 \
  X(memGetInfo, "cuMemGetInfo_v2", (size_t *available, size_t *total))                                       \
  X(memAlloc, "cuMemAlloc_v2", (DevicePtr * address, size_t bytes))                                          \
  X(memFree, "cuMemFree_v2", (DevicePtr address))                                                            \
  X(memHostAlloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))                           \
  X(memFreeHost, "cuMemFreeHost", (void *memory))                                                            \
  X(memcpyToDevice, "cuMemcpyHtoDAsync_v2", (DevicePtr to, const void *from, size_t bytes, Stream stream))   \
  X(memcpyToHost, "cuMemcpyDtoHAsync_v2", (void *to, DevicePtr from, size_t bytes, Stream stream))           \
  X(memsetBytes, "cuMemsetD8Async", (DevicePtr to, unsigned char value, size_t bytes, Stream stream))        \
  X(moduleLoad, "cuModuleLoadDataEx",                                                                        \
    (ModuleHandle * module, const void *image, unsigned count, JitOption *options, void **values))           \
  X(moduleUnload, "cuModuleUnload", (ModuleHandle module))                                                   \
  X(moduleGetFunction, "cuModuleGetFunction", (Function * function, ModuleHandle module, const char *name))  \
  X(functionSetAttribute, "cuFuncSetAttribute", (Function function, int attribute, int value))               \
  X(launchKernel, "cuLaunchKernel",                                                                          \
    (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,    \
     unsigned blockZ, unsigned sharedBytes, Stream stream, void **parameters, void **extra))                 \
  X(streamCreate, "cuStreamCreate", (Stream * stream, unsigned flags))                                       \
  X(streamDestroy, "cuStreamDestroy_v2", (Stream stream))                                                    \
  X(streamSynchronize, "cuStreamSynchronize", (Stream stream))                                               \
  X(streamWaitEvent, "cuStreamWaitEvent", (Stream stream, Event event, unsigned flags))                      \
  X(streamBeginCapture, "cuStreamBeginCapture_v2", (Stream stream, int mode))                                \
  X(streamEndCapture, "cuStreamEndCapture", (Stream stream, Graph * graph))                                  \
  X(graphInstantiate, "cuGraphInstantiateWithFlags",                                                         \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                               \
  X(graphLaunch, "cuGraphLaunch", (GraphExec exec, Stream stream))                                           \
  X(graphExecDestroy, "cuGraphExecDestroy", (GraphExec exec))                                                \
  X(graphDestroy, "cuGraphDestroy", (Graph graph))                                                           \
  X(eventCreate, "cuEventCreate", (Event * event, unsigned flags))                                           \
  X(eventDestroy, "cuEventDestroy_v2", (Event event))                                                        \
  X(eventRecord, "cuEventRecord", (Event event, Stream stream))                                              \
  X(eventSynchronize, "cuEventSynchronize", (Event event))                                                   \
  X(eventElapsedTime, "cuEventElapsedTime", (float *milliseconds, Event begin, Event end))

struct DriverApi {
  // The library that SMELT_CUDA_LIBRARY names, or libcuda.so.1, opened and initialised once; it is never
  // closed. SMELT_unsupported when there is none, a function is missing, or it finds no GPU.
  static Result<const DriverApi *> load();

  // "CUDA 13.0"
  std::string versionText() const;
  // "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"
  std::string errorText(Code code) const;

  std::string library;
  int version = 0;     // 1000 * major + 10 * minor
  int deviceCount = 0; // at least 1
#define SMELT_CUDA_MEMBER(member, symbol, parameters) Code(*member) parameters = nullptr;
  SMELT_CUDA_DRIVER_API(SMELT_CUDA_MEMBER)
#undef SMELT_CUDA_MEMBER
};

} // namespace smelt::runtime::cuda
