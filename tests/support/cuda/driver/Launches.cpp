// Launches: what the driver checks before, and the kernel as queued work.
#include "tests/support/cuda/driver/State.h"

#include <cstring>

using namespace smelt::emu;

namespace {

/// Empty if the configuration suits the kernel and the device.
std::string launchProblem(const Program &program, const Dim3 &grid, const Dim3 &block,
                          uint32_t shared_bytes) {
  if (grid.count() == 0 || block.count() == 0) {
    return "an extent is zero";
  }
  if (block.count() > 1024 || block.z > 64) {
    return format("%llu threads a CTA: 1024 at most, 64 in z",
                  static_cast<unsigned long long>(block.count()));
  }
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    return "the grid exceeds 2147483647 x 65535 x 65535";
  }
  const auto &req = program.reqntid, &max = program.maxntid;
  if (req[0] && (block.x != req[0] || block.y != req[1] || block.z != req[2])) {
    return format("block %ux%ux%u, the kernel's .reqntid is %ux%ux%u", block.x, block.y, block.z, req[0],
                  req[1], req[2]);
  }
  if (max[0] && block.count() > uint64_t(max[0]) * max[1] * max[2]) {
    return format("block %ux%ux%u, the kernel's .maxntid is %ux%ux%u", block.x, block.y, block.z, max[0],
                  max[1], max[2]);
  }
  if (shared_bytes > program.max_dynamic_shared) {
    return format("%u bytes of dynamic shared memory, %u allowed (cuFuncSetAttribute raises it)",
                  shared_bytes, program.max_dynamic_shared);
  }
  return "";
}

/// Packs the arguments as the kernel's parameter space. False if there are too few.
bool packParams(const Program &program, void **params, void **extra, std::vector<uint8_t> &out) {
  out.assign(program.param_bytes, 0);
  if (extra) {
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (; *extra; extra += 2) {
      const auto key = reinterpret_cast<uintptr_t>(*extra);
      if (key == 1) {
        buffer = extra[1];
      } else if (key == 2) {
        bytes = *static_cast<const size_t *>(extra[1]);
      }
    }
    if (!buffer || bytes < program.param_bytes) {
      return false;
    }
    std::memcpy(out.data(), buffer, program.param_bytes);
    return true;
  }
  if (!params && !program.params.empty()) {
    return false;
  }
  for (size_t i = 0; i < program.params.size(); ++i) {
    if (!params[i]) {
      return false;
    }
    std::memcpy(out.data() + program.params[i].offset, params[i], program.params[i].bytes);
  }
  return true;
}

CUresult execute(Launch launch) {
  launch.options = simOptions();
  try {
    runLaunch(launch);
    return CUDA_SUCCESS;
  } catch (const Fault &fault) {
    logLine(fault.what());
    return static_cast<CUresult>(fault.code);
  } catch (const std::bad_alloc &) {
    logLine("out of host memory while running a kernel");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

/// CTAs of the kernel that a multiprocessor holds at once.
uint64_t residentCtas(const Program &program, uint64_t threads, size_t shared_bytes) {
  const size_t shared = shared_bytes + program.static_shared + 1024;
  const size_t warps = (threads + 31) / 32;
  return std::min({(deviceIdentity().shared_optin + 1024) / shared, size_t(2048) / (warps * 32),
                   size_t(65536) / (warps * 32 * program.registers_used), size_t(32)});
}

/// Success if the kernel can be launched so, or else why not is logged.
CUresult checkMode(const Program &program, const Dim3 &grid, const Dim3 &block, uint32_t shared_bytes,
                   LaunchMode mode) {
  if (mode.programmatic && !program.waits_for_previous) {
    logLine("launch of " + program.name +
            " refused: it may start before the launch before it has ended, and has no griddepcontrol.wait");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!mode.cooperative) {
    return CUDA_SUCCESS;
  }
  const uint64_t resident = residentCtas(program, block.count(), shared_bytes) *
                            static_cast<uint64_t>(deviceIdentity().multiprocessors);
  if (grid.count() > resident) {
    logLine(format("launch of %s refused: %llu CTAs, of which %llu are resident at once",
                   program.name.c_str(), static_cast<unsigned long long>(grid.count()),
                   static_cast<unsigned long long>(resident)));
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  return CUDA_SUCCESS;
}

/// The attributes of a launch. False, logged, at one that is not emulated.
bool readAttributes(const CUlaunchConfig &config, LaunchMode &mode) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute &attribute = config.attrs[i];
    switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
      continue;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      mode.cooperative = attribute.value.cooperative;
      continue;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      mode.programmatic = attribute.value.programmaticStreamSerializationAllowed;
      continue;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      if (const auto &cluster = attribute.value.clusterDim; cluster.x * cluster.y * cluster.z == 1) {
        continue;
      }
      break;
    }
    logLine(format("launch refused: attribute %d, or its value, is not emulated", attribute.id));
    return false;
  }
  return true;
}

} // namespace

namespace smelt::emu {

CUresult launchKernel(CUfunction function, Dim3 grid, Dim3 block, uint32_t shared_bytes, CUstream stream,
                      void **params, void **extra, LaunchMode mode) {
  SMELT_CUDA_ENTER
  if (!driver.functions.contains(function)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const Program &program = function->program;
  if (const std::string problem = launchProblem(program, grid, block, shared_bytes); !problem.empty()) {
    logLine("launch of " + program.name + " refused: " + problem);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult refused = checkMode(program, grid, block, shared_bytes, mode); refused != CUDA_SUCCESS) {
    return refused;
  }
  Launch launch;
  launch.program = &program;
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_shared = shared_bytes;
  if (!packParams(program, params, extra, launch.params)) {
    logLine("launch of " + program.name + " refused: arguments are missing");
    return CUDA_ERROR_INVALID_VALUE;
  }
  return driver.enqueue(stream, CU_GRAPH_NODE_TYPE_KERNEL, [launch] { return execute(launch); });
}

} // namespace smelt::emu

SMELT_CUDA_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                          unsigned grid_z, unsigned block_x, unsigned block_y,
                                          unsigned block_z, unsigned shared_bytes, CUstream stream,
                                          void **params, void **extra) {
  return launchKernel(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream,
                      params, extra);
}

SMELT_CUDA_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                                     unsigned grid_z, unsigned block_x, unsigned block_y,
                                                     unsigned block_z, unsigned shared_bytes, CUstream stream,
                                                     void **params) {
  return launchKernel(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream,
                      params, nullptr, {.cooperative = true});
}

SMELT_CUDA_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                                            void **extra) {
  LaunchMode mode;
  if (!readAttributes(*config, mode)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return launchKernel(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                      {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes,
                      config->hStream, params, extra, mode);
}

SMELT_CUDA_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                                       int threads, size_t shared_bytes) {
  SMELT_CUDA_ENTER
  if (!driver.functions.contains(function) || threads < 1 || threads > 1024) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *blocks = static_cast<int>(residentCtas(function->program, static_cast<uint64_t>(threads), shared_bytes));
  return CUDA_SUCCESS;
}
