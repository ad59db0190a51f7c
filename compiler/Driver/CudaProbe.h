// What there is of CUDA on this machine: driver, devices, libraries, assembler. Nothing is linked; libraries
// are loaded by name, as the runtime does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace smelt::driver {

struct CudaDevice {
  std::string name;
  int major = 0, minor = 0; // compute capability
  uint64_t memory = 0;      // bytes
};

// Something looked for: where it was found, or why it was not.
struct Finding {
  bool found = false;
  std::string detail;
};

struct CudaProbe {
  Finding driver; // libcuda.so.1, or what SMELT_CUDA_LIBRARY names; the detail has its version
  std::vector<CudaDevice> devices;
  Finding cublas; // libcublasLt, or what SMELT_CUBLAS_LIBRARY names
  Finding ptxas;  // in PATH or a CUDA toolkit's folder
};

CudaProbe probeCuda();

} // namespace smelt::driver
