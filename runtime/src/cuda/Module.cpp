#include "runtime/src/cuda/Module.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <array>

namespace smelt::runtime::cuda {

using artifact::DeviceImage;
using artifact::DeviceTarget;
using artifact::ImageKind;

namespace {

// What a kernel may take of shared memory without asking.
constexpr uint32_t defaultSharedBytes = 48 * 1024;

std::string held(const Artifact &artifact) {
  std::string names;
  if (const auto *devices = artifact.manifest().devices()) {
    for (const DeviceTarget *target : *devices) {
      names += (names.empty() ? "" : ", ") + printable(target->name()->string_view());
    }
  }
  return names.empty() ? "no code for GPUs" : names;
}

// Machine code runs on its own major version from its minor version on.
bool takesCubin(const DeviceTarget &target, uint32_t computeCapability) {
  return runsOn(target, computeCapability) && computeCapability / 10 == target.compute_capability() / 10;
}

} // namespace

bool runsOn(const DeviceTarget &target, uint32_t computeCapability) {
  return target.exact() ? computeCapability == target.compute_capability()
                        : computeCapability >= target.compute_capability();
}

Result<const DeviceTarget *> chooseTarget(const Artifact &artifact, uint32_t computeCapability,
                                          std::string_view gpu) {
  const DeviceTarget *best = nullptr;
  if (const auto *devices = artifact.manifest().devices()) {
    for (const DeviceTarget *target : *devices) {
      bool better =
          !best || target->compute_capability() > best->compute_capability() ||
          (target->compute_capability() == best->compute_capability() && target->exact() && !best->exact());
      if (runsOn(*target, computeCapability) && better) {
        best = target;
      }
    }
  }
  if (best) {
    return best;
  }
  return fail(SMELT_unsupported,
              fmt::format("{}: this artifact holds {}; {} is sm_{}: compile with --target cuda:sm_{}{}",
                          artifact.name(), held(artifact), gpu, computeCapability, computeCapability,
                          computeCapability >= 90 ? "a" : ""));
}

Result<const DeviceTarget *> findTarget(const Artifact &artifact, std::string_view name) {
  if (const auto *devices = artifact.manifest().devices()) {
    for (const DeviceTarget *target : *devices) {
      if (target->name()->string_view() == name) {
        return target;
      }
    }
  }
  return fail(SMELT_unsupported, fmt::format("{}: has no code for '{}'; it holds {}", artifact.name(),
                                             printable(name), held(artifact)));
}

Result<OwnedModule> loadImage(DevicePointer device, const void *image, std::string_view what) {
  std::array<char, 8192> log = {};
  std::array<JitOption, 2> options = {jit_error_log_buffer, jit_error_log_buffer_size_bytes};
  std::array<void *, 2> values = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  ModuleHandle module = nullptr;
  Code code = device->api.moduleLoad(&module, image, unsigned(options.size()), options.data(), values.data());
  if (code == 0) {
    return OwnedModule(std::move(device), module);
  }
  Status status = device->check(code, fmt::format("load {}", what));
  if (log[0]) {
    status.message += fmt::format("\n{}", log.data());
  }
  return status;
}

Result<Module> Module::load(DevicePointer device, const Artifact &artifact, const DeviceTarget &target) {
  std::string tried;
  auto note = [&](const std::string &line) { tried += "\n  " + line; };
  for (const DeviceImage *image : *target.images()) {
    bool cubin = image->kind() == ImageKind::cubin;
    if (cubin && !takesCubin(target, device->computeCapability)) {
      note(fmt::format("its machine code is for sm_{} alone", target.compute_capability()));
      continue;
    }
    Result<OwnedModule> loaded =
        loadImage(device, artifact.image(*image).data(), cubin ? "its machine code" : "its PTX");
    if (loaded.ok()) {
      Module module;
      module.device = std::move(device);
      module.handle = std::move(*loaded);
      return module;
    }
    if (loaded.status().code == SMELT_memory) {
      return loaded.takeStatus();
    }
    note(loaded.status().message);
  }
  return fail(SMELT_unsupported,
              fmt::format("{}: the code for {} (PTX ISA {}.{}) does not load on {}:{}", artifact.name(),
                          printable(target.name()->string_view()), target.ptx_version() / 10,
                          target.ptx_version() % 10, device->describe(), tried));
}

Result<Function> Module::function(const char *name, uint32_t sharedBytes) const {
  Function function = nullptr;
  if (Code code = device->api.moduleGetFunction(&function, handle.get(), name); code != 0) {
    Status status =
        device->check(code, fmt::format("find function '{}' in the artifact's code", printable(name)));
    status.code = status.code == SMELT_memory ? SMELT_memory : SMELT_artifact;
    return status;
  }
  if (sharedBytes > device->sharedBytes) {
    return fail(SMELT_unsupported,
                fmt::format("{} gives a block {} bytes of shared memory, kernel '{}' takes {}",
                            device->describe(), device->sharedBytes, printable(name), sharedBytes));
  }
  if (sharedBytes > defaultSharedBytes) {
    Code code =
        device->api.functionSetAttribute(function, function_max_dynamic_shared_bytes, int(sharedBytes));
    if (Status status = device->check(
            code, fmt::format("give kernel '{}' {} bytes of shared memory", printable(name), sharedBytes));
        !status.ok()) {
      return status;
    }
  }
  return function;
}

} // namespace smelt::runtime::cuda
