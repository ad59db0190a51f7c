// Runs PTX kernels alone in tests: load text, launch with arguments, read results back. Goes through the
// driver's entry points only, so the same test runs on a GPU with SMELT_CUDA_LIBRARY=libcuda.so.1.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::tests {

/// A driver call failed. `name` is the CUresult's name ("CUDA_ERROR_INVALID_PTX"), `log` what the library
/// wrote about it (the look-alike's diagnosis, or the JIT error log).
struct CudaError : std::runtime_error {
  CudaError(int code, std::string name, std::string log)
      : std::runtime_error(name + (log.empty() ? "" : ": " + log)), code(code), name(std::move(name)),
        log(std::move(log)) {}
  int code;
  std::string name, log;
};

struct LaunchShape {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {32, 1, 1};
  unsigned shared_bytes = 0; ///< dynamic; above 48 KiB the limit is raised for the launch
};
/// The common case: one-dimensional grid and block.
LaunchShape shape(unsigned ctas, unsigned threads, unsigned shared_bytes = 0);

/// Device memory, freed with the object.
class DeviceBuffer {
public:
  DeviceBuffer(DeviceBuffer &&other) noexcept;
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept;
  ~DeviceBuffer();
  uint64_t address() const { return device_address; }
  /// On a look-alike: counts from now on how often kernels read and write each byte (255 is many; lanes
  /// that read the same bytes at once are one).
  void countAccesses();
  std::vector<uint8_t> reads() const { return counts(false); }
  std::vector<uint8_t> writes() const { return counts(true); }
  size_t bytes() const { return byte_count; }
  template <class T> std::vector<T> read() const {
    std::vector<T> values(byte_count / sizeof(T));
    readBytes(values.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T> void write(const std::vector<T> &values) {
    writeBytes(values.data(), values.size() * sizeof(T));
  }

private:
  friend class TestDevice;
  DeviceBuffer(uint64_t address, size_t bytes) : device_address(address), byte_count(bytes) {}
  std::vector<uint8_t> counts(bool writes) const;
  void readBytes(void *to, size_t bytes) const;
  void writeBytes(const void *from, size_t bytes);
  uint64_t device_address = 0;
  size_t byte_count = 0;
};

/// One kernel argument, copied by value. A DeviceBuffer stands for its address.
class KernelArgument {
public:
  KernelArgument(const DeviceBuffer &buffer) : KernelArgument(buffer.address()) {}
  template <class T>
    requires std::is_trivially_copyable_v<T>
  KernelArgument(const T &value) {
    const auto *from = reinterpret_cast<const uint8_t *>(&value);
    bytes.assign(from, from + sizeof(T));
  }
  std::vector<uint8_t> bytes;
};

/// A loaded module.
class TestModule {
public:
  ~TestModule();
  TestModule(TestModule &&other) noexcept;
  TestModule(const TestModule &) = delete;
  /// Launches `kernel` and waits. Throws CudaError.
  void run(const std::string &kernel, const LaunchShape &shape,
           const std::vector<KernelArgument> &arguments) const;
  /// A value of cuFuncGetAttribute.
  int attribute(const std::string &kernel, int attribute) const;

private:
  friend class TestDevice;
  explicit TestModule(void *handle) : handle(handle) {}
  void *handle;
};

/// The driver library and its first device. One a process.
class TestDevice {
public:
  /// Loads SMELT_CUDA_LIBRARY, or the look-alike of this build, and makes device 0 current. Throws CudaError.
  static TestDevice &get();

  /// Loads a module from PTX text. Throws CudaError with the error log. On a look-alike it first forgets an
  /// earlier test's fault.
  TestModule load(std::string_view ptx);
  DeviceBuffer allocate(size_t bytes);
  template <class T> DeviceBuffer upload(const std::vector<T> &values) {
    DeviceBuffer buffer = allocate(values.size() * sizeof(T));
    buffer.write(values);
    return buffer;
  }
  /// True if a look-alike is loaded, so that its checks can be tested.
  bool emulated() const;
  /// After a fault of device code: makes the look-alike usable again. A GPU would need a new process.
  void clearError();
  /// An entry point by its exported name; throws if the library lacks it.
  void *symbol(const char *name) const;

private:
  TestDevice();
  void *library = nullptr;
};

} // namespace smelt::tests
