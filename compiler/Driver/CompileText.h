// What `smeltc compile --emit` prints of generated code.
#pragma once

#include "compiler/Driver/Compilation.h"

#include <string>

namespace smelt::driver {

// Every function below throws UserError(SMELT_usage) when `kernel` is given and no kernel has that name.

// The kernels for CPUs, for every level of the options, as LLVM IR or assembly.
std::string cpuKernelTexts(const Compilation &compilation, const CompilationOptions &options,
                           codegen::cpu::TextForm form, const std::string &kernel);

// The modules of the GPU targets as PTX, or those of one kernel.
std::string ptxText(const Compilation &compilation, const CompilationOptions &options,
                    const std::string &kernel);

// A table of the functions of the GPU targets: registers, spills and shared memory as ptxas counts them,
// threads of a block, and the bytes and FLOPs of their kernel for one token (weights once, activations once;
// not the cache, whose part grows with the position).
std::string functionStats(const Compilation &compilation, const std::string &kernel);

} // namespace smelt::driver
