// Modules, functions, launches.
#include "tests/support/cuda/driver/State.h"

#include "tests/support/cuda/sim/Decoder.h"

#include <cstring>
#include <elf.h>

using namespace smelt::emu;

namespace {

struct LoadError {
  CUresult code;
  std::string text;
};

/// Newest PTX version that a driver of `version` assembles.
int newestPtx(int version) {
  constexpr std::pair<int, int> kTable[] = {{13010, 91}, {13000, 90}, {12090, 88}, {12080, 87}, {12070, 86},
                                            {12050, 85}, {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81},
                                            {12000, 80}, {11080, 78}, {11040, 74}, {11000, 70}};
  for (const auto &[driver, ptx] : kTable) {
    if (version >= driver) {
      return ptx;
    }
  }
  return 65;
}

/// PTX text inside an ELF image or a fat binary of `bytes` bytes.
std::string_view embeddedPtx(const char *image, size_t bytes) {
  const std::string_view all(image, bytes);
  const size_t begin = all.find(".version ");
  if (begin == std::string_view::npos || all.find(".target", begin) == std::string_view::npos) {
    throw LoadError{CUDA_ERROR_NO_BINARY_FOR_GPU,
                    "the image holds machine code but no PTX text; this library runs PTX only"};
  }
  return all.substr(begin, std::min(all.find('\0', begin), bytes) - begin);
}

std::string_view ptxOf(const void *image) {
  const auto *bytes = static_cast<const char *>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr header;
    std::memcpy(&header, image, sizeof header);
    return embeddedPtx(bytes, header.e_shoff + size_t(header.e_shnum) * header.e_shentsize);
  }
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == 0xba55ed50) { // fat binary: magic, version, header bytes, payload bytes
    uint16_t header_bytes;
    uint64_t payload_bytes;
    std::memcpy(&header_bytes, bytes + 6, sizeof header_bytes);
    std::memcpy(&payload_bytes, bytes + 8, sizeof payload_bytes);
    return embeddedPtx(bytes, header_bytes + payload_bytes);
  }
  return std::string_view(bytes);
}

void checkTarget(const Module &module) {
  const DeviceIdentity device = deviceIdentity();
  if (module.version_major * 10 + module.version_minor > newestPtx(device.driver_version)) {
    throw LoadError{CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                    format("PTX %d.%d is newer than the driver (%d) assembles", module.version_major,
                           module.version_minor, device.driver_version)};
  }
  if (module.sm > device.sm) {
    throw LoadError{CUDA_ERROR_INVALID_PTX,
                    format("the PTX targets %s, the device is sm_%u", module.target.c_str(), device.sm)};
  }
  if (module.target.back() == 'a' && module.sm != device.sm) {
    throw LoadError{CUDA_ERROR_NO_BINARY_FOR_GPU,
                    format("the PTX targets %s, which runs on sm_%u alone; the device is sm_%u",
                           module.target.c_str(), module.sm, device.sm)};
  }
}

void placeGlobals(CUmod_st &module) {
  const auto &variables = module.source->variables;
  module.variables.resize(variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    const Variable &variable = variables[i];
    if (variable.space != Space::Global && variable.space != Space::Const) {
      continue;
    }
    Allocation *allocation = deviceMemory().allocate(std::max<uint64_t>(variable.bytes, 1), variable.name);
    if (!allocation) {
      throw LoadError{CUDA_ERROR_OUT_OF_MEMORY, "no memory for variable " + variable.name};
    }
    std::memset(allocation->host, 0, allocation->bytes);
    std::copy(variable.data.begin(), variable.data.end(), allocation->host);
    allocation->markWritten(0, allocation->bytes);
    allocation->constant = variable.space == Space::Const;
    module.variables[i] = allocation->begin;
  }
}

void freeGlobals(const CUmod_st &module) {
  for (const uint64_t address : module.variables) {
    if (address) {
      deviceMemory().release(address, false);
    }
  }
}

std::string withLine(const PtxError &error, std::string_view text) {
  size_t begin = 0;
  for (uint32_t line = 1; line < error.line && begin != std::string_view::npos; ++line) {
    begin = text.find('\n', begin);
    begin = begin == std::string_view::npos ? begin : begin + 1;
  }
  std::string source;
  if (begin != std::string_view::npos) {
    source = text.substr(begin, text.find('\n', begin) - begin);
    source.erase(0, source.find_first_not_of(" \t"));
  }
  return "PTX " + std::string(error.what()) + ": " + source;
}

std::unique_ptr<CUmod_st> load(std::string_view text) {
  auto module = std::make_unique<CUmod_st>();
  try {
    module->source = std::make_shared<const Module>(parseModule(text));
    checkTarget(*module->source);
    placeGlobals(*module);
    for (const Function &kernel : module->source->kernels) {
      auto function = std::make_unique<CUfunc_st>();
      function->program = decodeKernel(module->source, kernel, module->variables);
      if (function->program.static_shared > 48 * 1024) {
        throw PtxError(kernel.line, format("%u bytes of static shared memory, 49152 at most",
                                           function->program.static_shared));
      }
      module->functions.push_back(std::move(function));
    }
  } catch (const PtxError &error) {
    freeGlobals(*module);
    throw LoadError{CUDA_ERROR_INVALID_PTX, withLine(error, text)};
  } catch (const LoadError &) {
    freeGlobals(*module);
    throw;
  }
  return module;
}

/// Writes the text into the caller's error log, if options name one.
void report(const std::string &text, unsigned count, const CUjit_option *options, void **values) {
  char *buffer = nullptr;
  size_t bytes = 0, size_at = count;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) {
      buffer = static_cast<char *>(values[i]);
    } else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      bytes = reinterpret_cast<size_t>(values[i]) & 0xffffffff;
      size_at = i;
    } else if (options[i] == CU_JIT_INFO_LOG_BUFFER) {
      *static_cast<char *>(values[i]) = '\0';
    }
  }
  if (buffer && bytes) {
    const int written = std::snprintf(buffer, bytes, "%s", text.c_str());
    values[size_at] = reinterpret_cast<void *>(std::min(bytes, static_cast<size_t>(written) + 1));
  }
}

} // namespace

SMELT_CUDA_EXPORT CUresult cuModuleLoadDataEx(CUmodule *result, const void *image, unsigned count,
                                              CUjit_option *options, void **values) {
  SMELT_CUDA_ENTER_UNCAPTURED
  *result = nullptr;
  deviceMemory().configure(deviceIdentity().memory_bytes, simOptions().track_writes);
  try {
    auto module = load(ptxOf(image));
    for (const auto &function : module->functions) {
      driver.functions.insert(function.get());
    }
    driver.modules.insert(module.get());
    *result = module.release();
    return CUDA_SUCCESS;
  } catch (const LoadError &error) {
    logLine("module refused: " + error.text);
    report(error.text, count, options, values);
    return error.code;
  }
}
SMELT_CUDA_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

SMELT_CUDA_EXPORT CUresult cuModuleUnload(CUmodule module) {
  SMELT_CUDA_ENTER_UNCAPTURED
  if (!driver.modules.contains(module)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const CUresult result = driver.drainAll();
  for (const auto &function : module->functions) {
    driver.functions.erase(function.get());
  }
  freeGlobals(*module);
  driver.modules.erase(module);
  delete module;
  return result;
}

SMELT_CUDA_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  SMELT_CUDA_ENTER
  if (!driver.modules.contains(module)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (const auto &candidate : module->functions) {
    if (candidate->program.name == name) {
      *function = candidate.get();
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_NOT_FOUND;
}

SMELT_CUDA_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                                                const char *name) {
  SMELT_CUDA_ENTER
  if (!driver.modules.contains(module)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const auto &variables = module->source->variables;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].name == name && module->variables[i]) {
      if (address) {
        *address = module->variables[i];
      }
      if (bytes) {
        *bytes = variables[i].bytes;
      }
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_NOT_FOUND;
}

SMELT_CUDA_EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                              CUfunction function) {
  SMELT_CUDA_ENTER
  if (!driver.functions.contains(function)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const Program &program = function->program;
  const auto threads = [](const std::array<uint32_t, 3> &n) { return static_cast<int>(n[0] * n[1] * n[2]); };
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = program.reqntid[0]   ? threads(program.reqntid)
             : program.maxntid[0] ? threads(program.maxntid)
                                  : 1024;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = static_cast<int>(program.static_shared);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    *value = static_cast<int>(program.param_bytes);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *value = static_cast<int>(program.local_bytes);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *value = static_cast<int>(program.registers_used);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    *value = static_cast<int>(program.module->sm);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *value = static_cast<int>(deviceIdentity().sm);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = static_cast<int>(program.max_dynamic_shared);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *value = -1;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

SMELT_CUDA_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                              int value) {
  SMELT_CUDA_ENTER
  if (!driver.functions.contains(function)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    return CUDA_SUCCESS;
  }
  const uint32_t most = deviceIdentity().shared_optin - function->program.static_shared;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      static_cast<uint32_t>(value) > most) {
    logLine(format("cuFuncSetAttribute(%s, %d, %d) refused: %u bytes of dynamic shared memory at most",
                   function->program.name.c_str(), attribute, value, most));
    return CUDA_ERROR_INVALID_VALUE;
  }
  function->program.max_dynamic_shared = static_cast<uint32_t>(value);
  return CUDA_SUCCESS;
}
