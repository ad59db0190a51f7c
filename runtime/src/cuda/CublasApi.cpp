#include "runtime/src/cuda/CublasApi.h"

#include "runtime/src/Text.h"
#include "runtime/src/cuda/SymbolFinder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <dlfcn.h>

namespace smelt::runtime::cuda {
namespace {

constexpr size_t oldestVersion = 120000, newestVersion = 139999;

Status refuse(const std::string &what) {
  return fail(SMELT_unsupported, fmt::format("cuBLASLt cannot be used; name another library with "
                                             "SMELT_CUBLAS_LIBRARY, or do without it (--gemm own): {}",
                                             what));
}

std::string environment(const char *variable) {
  const char *value = std::getenv(variable);
  return value ? value : "";
}

// Null when there is no library of the name.
Result<std::unique_ptr<CublasApi>> openLibrary(const std::string &name) {
  void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    return std::unique_ptr<CublasApi>();
  }
  auto api = std::make_unique<CublasApi>();
  api->library = name;
  SymbolFinder symbols(handle);
  symbols.find(api->getVersion, "cublasLtGetVersion");
  symbols.find(api->statusName, "cublasLtGetStatusName");
#define SMELT_CUBLASLT_FIND(member, symbol, parameters) symbols.find(api->member, symbol);
  SMELT_CUBLASLT_API(SMELT_CUBLASLT_FIND)
#undef SMELT_CUBLASLT_FIND
  if (!symbols.missing.empty()) {
    return refuse(fmt::format("{} lacks these functions:{}", printable(name), symbols.missing.text()));
  }
  api->version = api->getVersion();
  if (api->version < oldestVersion || api->version > newestVersion) {
    return refuse(fmt::format("{} is {}, 12 or 13 expected", printable(name), api->versionText()));
  }
  return api;
}

} // namespace

std::string CublasApi::named() { return environment("SMELT_CUBLAS_LIBRARY"); }

Result<const CublasApi *> CublasApi::load() {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<CublasApi>> opened; // by library
  std::vector<std::string> names = {"libcublasLt.so.13", "libcublasLt.so.12"};
  if (std::string name = named(); !name.empty()) {
    names = {name};
  } else if (!environment("SMELT_CUDA_LIBRARY").empty()) {
    names.clear();
  }
  std::lock_guard lock(mutex);
  for (const std::string &name : names) {
    auto place = opened.find(name);
    if (place == opened.end()) {
      Result<std::unique_ptr<CublasApi>> api = openLibrary(name);
      if (!api.ok()) {
        return api.takeStatus();
      }
      if (!*api && !named().empty()) {
        const char *why = dlerror();
        return refuse(fmt::format("SMELT_CUBLAS_LIBRARY names '{}': {}", printable(name),
                                  why ? printable(why) : "it cannot be opened"));
      }
      if (!*api) {
        continue;
      }
      place = opened.emplace(name, std::move(*api)).first;
    }
    return place->second.get();
  }
  return static_cast<const CublasApi *>(nullptr);
}

std::string CublasApi::versionText() const {
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string CublasApi::statusText(int code) const {
  const char *name = statusName(code);
  return fmt::format("{} ({})", name ? name : "unknown status", code);
}

} // namespace smelt::runtime::cuda
