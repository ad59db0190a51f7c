#include "compiler/Driver/CudaProbe.h"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

#include <dlfcn.h>
#include <unistd.h>

namespace smelt::driver {

namespace {

// From the driver API's cuda.h.
constexpr int compute_capability_major = 75;
constexpr int compute_capability_minor = 76;

struct Library {
  void *handle = nullptr;
  std::string name;
  std::string error;

  template <typename Function> Function *symbol(const char *symbol_name) const {
    return reinterpret_cast<Function *>(::dlsym(handle, symbol_name));
  }
};

// The library the environment variable names, and no other, or else the first of `names` that loads.
Library load(const char *variable, std::vector<std::string> names) {
  if (const char *chosen = std::getenv(variable)) {
    names = {chosen};
  }
  Library library;
  for (const std::string &name : names) {
    library.handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    library.name = name;
    if (library.handle) {
      return library;
    }
    library.error = ::dlerror();
  }
  return library;
}

std::vector<CudaDevice> listDevices(const Library &library) {
  auto *count_devices = library.symbol<int(int *)>("cuDeviceGetCount");
  auto *get_device = library.symbol<int(int *, int)>("cuDeviceGet");
  auto *get_name = library.symbol<int(char *, int, int)>("cuDeviceGetName");
  auto *get_attribute = library.symbol<int(int *, int, int)>("cuDeviceGetAttribute");
  auto *total_memory = library.symbol<int(size_t *, int)>("cuDeviceTotalMem_v2");
  std::vector<CudaDevice> devices;
  int count = 0;
  if (!count_devices || !get_device || !get_name || !get_attribute || !total_memory ||
      count_devices(&count) != 0) {
    return devices;
  }
  for (int index = 0; index < count; ++index) {
    int handle = 0;
    char name[256] = "";
    size_t memory = 0;
    CudaDevice device;
    if (get_device(&handle, index) != 0 || get_name(name, sizeof(name) - 1, handle) != 0 ||
        get_attribute(&device.major, compute_capability_major, handle) != 0 ||
        get_attribute(&device.minor, compute_capability_minor, handle) != 0 ||
        total_memory(&memory, handle) != 0) {
      continue;
    }
    device.name = name;
    device.memory = memory;
    devices.push_back(std::move(device));
  }
  return devices;
}

void probeDriver(CudaProbe &probe) {
  Library library = load("SMELT_CUDA_LIBRARY", {"libcuda.so.1"});
  if (!library.handle) {
    probe.driver.detail = library.error;
    return;
  }
  auto *initialise = library.symbol<int(unsigned)>("cuInit");
  auto *get_version = library.symbol<int(int *)>("cuDriverGetVersion");
  int version = 0;
  int error = initialise ? initialise(0) : -1;
  if (error != 0 || !get_version || get_version(&version) != 0) {
    probe.driver.detail = fmt::format("{}: cuInit failed with error {}", library.name, error);
    return;
  }
  probe.driver = {true, fmt::format("{}, CUDA {}.{}", library.name, version / 1000, version % 1000 / 10)};
  probe.devices = listDevices(library);
}

Finding probeCublas() {
  Library library = load("SMELT_CUBLAS_LIBRARY", {"libcublasLt.so.13", "libcublasLt.so.12"});
  return library.handle ? Finding{true, library.name} : Finding{false, library.error};
}

Finding probePtxas() {
  std::vector<std::string> folders;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char *root = std::getenv(variable)) {
      folders.push_back(std::string(root) + "/bin");
    }
  }
  std::stringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) {
    folders.push_back(folder);
  }
  folders.push_back("/usr/local/cuda/bin");
  for (const std::string &folder : folders) {
    std::string candidate = folder + "/ptxas";
    if (::access(candidate.c_str(), X_OK) == 0) {
      return {true, candidate};
    }
  }
  return {false, fmt::format("not in {}", fmt::join(folders, ", "))};
}

} // namespace

CudaProbe probeCuda() {
  CudaProbe probe;
  probeDriver(probe);
  probe.cublas = probeCublas();
  probe.ptxas = probePtxas();
  return probe;
}

} // namespace smelt::driver
