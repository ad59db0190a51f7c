#include "tests/gpu/LaunchModes.h"

#include "runtime/src/cuda/SymbolFinder.h"

#include <fmt/format.h>

namespace smelt::gpu {
namespace {

// Numbers of cuda.h.
constexpr int attributeCooperativeLaunch = 95;
constexpr int launchAttributeProgrammatic = 6;
// CUDA 12.3, the first whose graphs have programmatic edges.
constexpr int programmaticEdges = 12030;

} // namespace

LaunchModes::LaunchModes(const Bench &bench) : bench(bench) {
  const runtime::cuda::DriverApi &api = bench.device->api;
  // The runtime has it open already, and never closes it.
  if (void *library = dlopen(api.library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    runtime::cuda::SymbolFinder symbols(library);
    symbols.find(launchCooperativeKernel, "cuLaunchCooperativeKernel");
    symbols.find(launchKernelEx, "cuLaunchKernelEx");
  }
  bench.expect(api.deviceGetAttribute(&hasCooperative, attributeCooperativeLaunch, bench.device->ordinal),
               "say whether it launches cooperatively");
}

void LaunchModes::cooperative(runtime::cuda::Function kernel, const LaunchShape &shape,
                              void **parameters) const {
  bench.expect(launchCooperativeKernel(kernel, shape.blocks, 1, 1, shape.threads, 1, 1, shape.sharedBytes,
                                       bench.stream.get(), parameters),
               "launch a kernel cooperatively");
}

void LaunchModes::programmatic(runtime::cuda::Function kernel, const LaunchShape &shape,
                               void **parameters) const {
  static_assert(sizeof(Attribute) == 72);
  Attribute attribute = {launchAttributeProgrammatic, {0, 1}};
  Config config = {shape.blocks,       1,          1, shape.threads, 1, 1, shape.sharedBytes,
                   bench.stream.get(), &attribute, 1};
  bench.expect(launchKernelEx(&config, kernel, parameters, nullptr), "launch a kernel programmatically");
}

std::string LaunchModes::whyNotCooperative() const {
  return !launchCooperativeKernel ? "the driver lacks cuLaunchCooperativeKernel"
         : !hasCooperative        ? "the GPU does not launch cooperatively"
                                  : "";
}

std::string LaunchModes::whyNotProgrammatic() const {
  return bench.device->computeCapability < 90            ? "they take compute capability 9.0"
         : bench.device->api.version < programmaticEdges ? "they take a driver of CUDA 12.3"
         : !launchKernelEx                               ? "the driver lacks cuLaunchKernelEx"
                                                         : "";
}

} // namespace smelt::gpu
