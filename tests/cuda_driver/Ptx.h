// Shorthand for tests of single instructions: PTX kernels that read arrays, compute, and store.
#pragma once

#include "tests/support/cuda/TestDevice.h"

#include <cstdint>
#include <string>
#include <vector>

namespace smelt::tests {

/// A module with one entry "k" whose body is `body`; .param .u64 p0.. p`params`-1 are pointers. Registers %r,
/// %rd, %f, %fd, %rs, %p of 40 each are declared.
std::string kernelText(const std::string &body, int params, const std::string &directives = "",
                       const std::string &target = "sm_90", const std::string &globals = "");

/// Runs `code` with a thread an element. `code` finds element i of `a` in %r1 (32-bit) or %rd1 (64-bit), of
/// `b` in %r2/%rd2, of `c` in %r3/%rd3, and leaves the result in %r0/%rd0.
std::vector<uint32_t> run32(const std::string &code, const std::vector<uint32_t> &a,
                            std::vector<uint32_t> b = {}, std::vector<uint32_t> c = {});
std::vector<uint64_t> run64(const std::string &code, const std::vector<uint64_t> &a,
                            std::vector<uint64_t> b = {}, std::vector<uint64_t> c = {});

uint32_t bits(float value);
float real(uint32_t bits);
uint64_t bits64(double value);

/// The error of loading or running; empty if there is none. Clears a sticky error.
std::string failure(const std::string &text, const LaunchShape &shape,
                    const std::vector<KernelArgument> &arguments);

} // namespace smelt::tests
