#include "runtime/src/cuda/DriverApi.h"

#include "runtime/src/Text.h"
#include "runtime/src/cuda/SymbolFinder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include <dlfcn.h>

namespace smelt::runtime::cuda {
namespace {

Result<std::unique_ptr<DriverApi>> openLibrary(const std::string &name) {
  auto refuse = [&](const std::string &what) {
    return fail(SMELT_unsupported, fmt::format("the CUDA driver cannot be used: {}", what));
  };
  void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    return refuse(fmt::format("{}; install NVIDIA's driver, or run on the CPU with --device cpu", dlerror()));
  }
  auto api = std::make_unique<DriverApi>();
  api->library = name;
  SymbolFinder symbols(handle);
#define SMELT_CUDA_FIND(member, symbol, parameters) symbols.find(api->member, symbol);
  SMELT_CUDA_DRIVER_API(SMELT_CUDA_FIND)
#undef SMELT_CUDA_FIND
  if (!symbols.missing.empty()) {
    return refuse(
        fmt::format("{} lacks these functions, CUDA 12 or newer is needed:{}", name, symbols.missing.text()));
  }
  if (Code code = api->init(0); code != 0) {
    return refuse(fmt::format("{}: cuInit: {}", name, api->errorText(code)));
  }
  if (Code code = api->driverGetVersion(&api->version); code != 0) {
    return refuse(fmt::format("{}: cuDriverGetVersion: {}", name, api->errorText(code)));
  }
  if (Code code = api->deviceGetCount(&api->deviceCount); code != 0 || api->deviceCount < 1) {
    return refuse(fmt::format("{} ({}) finds no GPU: {}", name, api->versionText(),
                              code ? api->errorText(code) : "the count is 0"));
  }
  return api;
}

} // namespace

Result<const DriverApi *> DriverApi::load() {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<DriverApi>> opened; // by library
  const char *chosen = std::getenv("SMELT_CUDA_LIBRARY");
  std::string name = chosen && *chosen ? chosen : "libcuda.so.1";
  std::lock_guard lock(mutex);
  auto place = opened.find(name);
  if (place == opened.end()) {
    Result<std::unique_ptr<DriverApi>> api = openLibrary(name);
    if (!api.ok()) {
      return api.takeStatus();
    }
    place = opened.emplace(name, std::move(*api)).first;
  }
  return place->second.get();
}

std::string DriverApi::versionText() const {
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

std::string DriverApi::errorText(Code code) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(code, &name) != 0 || !name) {
    name = "unknown error";
  }
  if (getErrorString(code, &text) != 0 || !text) {
    return fmt::format("{} ({})", name, code);
  }
  return fmt::format("{} ({}): {}", name, code, text);
}

} // namespace smelt::runtime::cuda
