#include "tests/support/cuda/TestDevice.h"

#include "tests/support/cuda/driver/DriverTypes.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <unistd.h>
#include <utility>

namespace smelt::tests {
namespace {

/// Calls an entry point of the loaded library by its exported name.
template <class... Args> CUresult call(const char *name, Args... args) {
  using Fn = CUresult (*)(Args...);
  return reinterpret_cast<Fn>(TestDevice::get().symbol(name))(args...);
}

/// The look-alike writes its diagnosis to a file of this process, which is read back into the exception.
const std::string &logPath() {
  static const std::string path = "/tmp/smelt-test-cuda-" + std::to_string(getpid()) + ".log";
  return path;
}

std::string takeLog() {
  std::ifstream file(logPath());
  std::string text(std::istreambuf_iterator<char>(file), {});
  std::remove(logPath().c_str());
  return text;
}

void check(CUresult result, const std::string &log = "") {
  if (result == CUDA_SUCCESS) {
    return;
  }
  const char *name = nullptr;
  call("cuGetErrorName", result, &name);
  const std::string written = takeLog();
  throw CudaError(result, name ? name : "unknown", written.empty() ? log : written);
}

CUfunction function(void *module, const std::string &kernel) {
  CUfunction handle = nullptr;
  check(call("cuModuleGetFunction", &handle, static_cast<CUmodule>(module), kernel.c_str()), kernel);
  return handle;
}

} // namespace

LaunchShape shape(unsigned ctas, unsigned threads, unsigned shared_bytes) {
  return {{ctas, 1, 1}, {threads, 1, 1}, shared_bytes};
}

DeviceBuffer::DeviceBuffer(DeviceBuffer &&other) noexcept
    : device_address(std::exchange(other.device_address, 0)), byte_count(other.byte_count) {}
DeviceBuffer &DeviceBuffer::operator=(DeviceBuffer &&other) noexcept {
  std::swap(device_address, other.device_address);
  std::swap(byte_count, other.byte_count);
  return *this;
}
DeviceBuffer::~DeviceBuffer() {
  if (device_address) {
    call("cuMemFree_v2", static_cast<CUdeviceptr>(device_address));
  }
}
void DeviceBuffer::readBytes(void *to, size_t bytes) const {
  check(call("cuMemcpyDtoH_v2", to, static_cast<CUdeviceptr>(device_address), bytes));
}
void DeviceBuffer::writeBytes(const void *from, size_t bytes) {
  check(call("cuMemcpyHtoD_v2", static_cast<CUdeviceptr>(device_address), from, bytes));
}

void DeviceBuffer::countAccesses() {
  const auto begin =
      reinterpret_cast<bool (*)(uint64_t)>(TestDevice::get().symbol("smelt_test_cuda_count_accesses"));
  if (!begin(device_address)) {
    throw CudaError(CUDA_ERROR_INVALID_VALUE, "nothing to count", "the buffer is empty");
  }
}
std::vector<uint8_t> DeviceBuffer::counts(bool writes) const {
  const auto get = reinterpret_cast<const uint8_t *(*)(uint64_t, bool)>(
      TestDevice::get().symbol("smelt_test_cuda_access_counts"));
  const uint8_t *from = get(device_address, writes);
  if (!from) {
    throw CudaError(CUDA_ERROR_INVALID_VALUE, "nobody counts", "countAccesses() comes first");
  }
  return {from, from + byte_count};
}

TestModule::TestModule(TestModule &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
TestModule::~TestModule() {
  if (handle) {
    call("cuModuleUnload", static_cast<CUmodule>(handle));
  }
}

void TestModule::run(const std::string &kernel, const LaunchShape &shape,
                     const std::vector<KernelArgument> &arguments) const {
  const CUfunction target = function(handle, kernel);
  if (shape.shared_bytes > 48 * 1024) {
    check(call("cuFuncSetAttribute", target, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
               static_cast<int>(shape.shared_bytes)));
  }
  std::vector<void *> params;
  for (const KernelArgument &argument : arguments) {
    params.push_back(const_cast<uint8_t *>(argument.bytes.data()));
  }
  check(call("cuLaunchKernel", target, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0],
             shape.block[1], shape.block[2], shape.shared_bytes, static_cast<CUstream>(nullptr),
             params.data(), static_cast<void **>(nullptr)));
  check(call("cuCtxSynchronize"));
}

int TestModule::attribute(const std::string &kernel, int attribute) const {
  int value = 0;
  check(call("cuFuncGetAttribute", &value, static_cast<CUfunction_attribute>(attribute),
             function(handle, kernel)));
  return value;
}

TestDevice &TestDevice::get() {
  static TestDevice device;
  return device;
}

TestDevice::TestDevice() {
  const char *path = std::getenv("SMELT_CUDA_LIBRARY");
  library = dlopen(path && *path ? path : SMELT_TEST_CUDA_PATH, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw CudaError(CUDA_ERROR_NOT_FOUND, "no driver library", dlerror());
  }
  setenv("SMELT_TEST_CUDA_LOG", logPath().c_str(), 0);
  CUdevice first = 0;
  CUcontext context = nullptr;
  const auto need = [&](CUresult result) {
    if (result != CUDA_SUCCESS) {
      throw CudaError(result, "no usable device", takeLog());
    }
  };
  need(reinterpret_cast<CUresult (*)(unsigned)>(symbol("cuInit"))(0));
  need(reinterpret_cast<CUresult (*)(CUdevice *, int)>(symbol("cuDeviceGet"))(&first, 0));
  need(reinterpret_cast<CUresult (*)(CUcontext *, CUdevice)>(symbol("cuDevicePrimaryCtxRetain"))(&context,
                                                                                                 first));
  need(reinterpret_cast<CUresult (*)(CUcontext)>(symbol("cuCtxSetCurrent"))(context));
}

void *TestDevice::symbol(const char *name) const {
  void *found = dlsym(library, name);
  if (!found) {
    throw CudaError(CUDA_ERROR_NOT_FOUND, "missing entry point", name);
  }
  return found;
}

TestModule TestDevice::load(std::string_view ptx) {
  clearError();
  const std::string text(ptx);
  char log[4096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  CUmodule module = nullptr;
  check(call("cuModuleLoadDataEx", &module, static_cast<const void *>(text.c_str()), 2u, &options[0],
             &values[0]),
        log);
  return TestModule(module);
}

DeviceBuffer TestDevice::allocate(size_t bytes) {
  CUdeviceptr address = 0;
  check(call("cuMemAlloc_v2", &address, bytes));
  return {address, bytes};
}

bool TestDevice::emulated() const { return dlsym(library, "smelt_test_cuda_clear_error") != nullptr; }

void TestDevice::clearError() {
  if (emulated()) {
    reinterpret_cast<void (*)()>(symbol("smelt_test_cuda_clear_error"))();
    takeLog();
  }
}

} // namespace smelt::tests
