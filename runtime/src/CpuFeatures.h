// What the CPU and the operating system can run, in the bits of artifact.h.
#pragma once

#include <cstdint>
#include <string>

namespace smelt::runtime {

// SMELT_CPU_* bits.
uint64_t cpuFeatures();
// "x86-64-v4+bf16", "x86-64-v4", "x86-64-v3" or "x86-64".
const char *isaName(uint64_t features);
// "AVX2 + AVX-512", "none"; unknown bits by number.
std::string featureNames(uint64_t features);

} // namespace smelt::runtime
