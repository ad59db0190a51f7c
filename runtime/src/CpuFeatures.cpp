#include "runtime/src/CpuFeatures.h"

#include "smelt/artifact.h"

#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace smelt::runtime {

#if defined(__x86_64__)
namespace {

bool bit(unsigned value, int index) { return (value >> index) & 1; }

// The register state the operating system saves (XCR0).
uint64_t enabledState() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | uint64_t(high) << 32;
}

uint64_t detect() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) {
    return 0;
  }
  bool fma = bit(c, 12), osxsave = bit(c, 27), avx = bit(c, 28), f16c = bit(c, 29), movbe = bit(c, 22);
  if (!osxsave || !avx || !fma || !f16c || !movbe) {
    return 0;
  }
  uint64_t state = enabledState();
  if ((state & 0x6) != 0x6) { // XMM and YMM
    return 0;
  }
  unsigned a7, b7, c7, d7;
  if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) {
    return 0;
  }
  unsigned extended = 0, unused1, unused2, unused3;
  __get_cpuid(0x80000001, &unused1, &unused2, &extended, &unused3);
  bool lzcnt = bit(extended, 5);
  bool bmi1 = bit(b7, 3), avx2 = bit(b7, 5), bmi2 = bit(b7, 8);
  if (!bmi1 || !bmi2 || !avx2 || !lzcnt) {
    return 0;
  }
  uint64_t features = SMELT_CPU_AVX2;

  bool avx512f = bit(b7, 16), avx512dq = bit(b7, 17), avx512cd = bit(b7, 28), avx512bw = bit(b7, 30),
       avx512vl = bit(b7, 31);
  bool zmm = (state & 0xe6) == 0xe6; // opmask and both halves of ZMM
  if (!zmm || !avx512f || !avx512dq || !avx512cd || !avx512bw || !avx512vl) {
    return features;
  }
  features |= SMELT_CPU_AVX512;
  if (bit(c7, 11)) {
    features |= SMELT_CPU_AVX512_VNNI;
  }

  unsigned a71, b71, c71, d71;
  if (a7 >= 1 && __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71) && bit(a71, 5)) {
    features |= SMELT_CPU_AVX512_BF16;
  }
  return features;
}

bool isAmd() {
  unsigned a, name[3] = {};
  if (!__get_cpuid(0, &a, &name[0], &name[2], &name[1])) {
    return false;
  }
  std::string_view vendor(reinterpret_cast<const char *>(name), sizeof name);
  return vendor == "AuthenticAMD" || vendor == "HygonGenuine";
}

} // namespace

uint64_t cpuFeatures() {
  static const uint64_t features = detect();
  return features;
}

uint64_t slowFeatures() { return isAmd() ? 0 : cpuFeatures() & SMELT_CPU_AVX512_BF16; }
#else
uint64_t cpuFeatures() { return 0; }
uint64_t slowFeatures() { return 0; }
#endif

const char *isaName(uint64_t features) {
  if (features & SMELT_CPU_AVX512_BF16) {
    return "x86-64-v4+bf16";
  }
  if (features & SMELT_CPU_AVX512_VNNI) {
    return "x86-64-v4+vnni";
  }
  if (features & SMELT_CPU_AVX512) {
    return "x86-64-v4";
  }
  return features & SMELT_CPU_AVX2 ? "x86-64-v3" : "x86-64";
}

std::string featureNames(uint64_t features) {
  static constexpr struct {
    uint64_t bit;
    const char *name;
  } names[] = {{SMELT_CPU_AVX2, "AVX2 with FMA, BMI2 and F16C"},
               {SMELT_CPU_AVX512, "AVX-512 F, BW, CD, DQ and VL"},
               {SMELT_CPU_AVX512_BF16, "AVX-512 BF16"},
               {SMELT_CPU_AVX512_VNNI, "AVX-512 VNNI"}};
  std::string out;
  auto append = [&](const std::string &name) { out += (out.empty() ? "" : "; ") + name; };
  for (const auto &entry : names) {
    if (features & entry.bit) {
      append(entry.name);
    }
    features &= ~entry.bit;
  }
  for (int index = 0; features; ++index, features >>= 1) {
    if (features & 1) {
      append("feature bit " + std::to_string(index));
    }
  }
  return out.empty() ? "none" : out;
}

} // namespace smelt::runtime
