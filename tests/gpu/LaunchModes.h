// Launches that the runtime has no use for and that a driver may lack: entry points are looked up here.
#pragma once

#include "tests/gpu/Bench.h"

namespace smelt::gpu {

class LaunchModes {
public:
  explicit LaunchModes(const Bench &bench);

  // All blocks at once on the GPU, so that they may wait for each other.
  void cooperative(runtime::cuda::Function kernel, const LaunchShape &shape, void **parameters) const;
  // May start before the launch before it has ended: the kernel waits for that one by griddepcontrol.wait.
  void programmatic(runtime::cuda::Function kernel, const LaunchShape &shape, void **parameters) const;

  // Why this GPU or its driver cannot; empty when it can.
  std::string whyNotCooperative() const;
  std::string whyNotProgrammatic() const;

private:
  using Code = runtime::cuda::Code;
  struct Attribute { // CUlaunchAttribute
    int id;
    int value[17]; // at an offset of 8 bytes: value[1] is the first word
  };
  struct Config { // CUlaunchConfig
    unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
    runtime::cuda::Stream stream;
    Attribute *attributes;
    unsigned count;
  };

  const Bench &bench;
  Code (*launchCooperativeKernel)(runtime::cuda::Function, unsigned gridX, unsigned gridY, unsigned gridZ,
                                  unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                                  runtime::cuda::Stream, void **parameters) = nullptr;
  Code (*launchKernelEx)(const Config *, runtime::cuda::Function, void **parameters, void **extra) = nullptr;
  int hasCooperative = 0;
};

} // namespace smelt::gpu
