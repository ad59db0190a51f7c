// What the CPU and the operating system can run, in the bits of artifact.h.
#pragma once

#include <cstdint>
#include <string>

namespace smelt::runtime {

// SMELT_CPU_* bits.
uint64_t cpuFeatures();
// Those of them that gain nothing: AVX512_BF16 on any CPU but AMD's. VDPBF16PS has twice the rate of f32 FMA
// on Zen 4 and about half of it on the Intel CPUs measured (docs/performance.md), where widening bf16 in
// registers is the faster way and rounds no activation. By vendor rather than by measuring, so that one
// machine always gives the same bits.
uint64_t slowFeatures();
// "x86-64-v4+bf16", "x86-64-v4+vnni", "x86-64-v4", "x86-64-v3" or "x86-64".
const char *isaName(uint64_t features);
// "AVX2 + AVX-512", "none"; unknown bits by number.
std::string featureNames(uint64_t features);

} // namespace smelt::runtime
