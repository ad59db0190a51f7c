// The phases of `smeltc compile`, in order: progress, --timing and --until go by their names.
#pragma once

#include <string>
#include <vector>

namespace smelt::driver {

// "read", "build", one for each pass of the lowering, "lower-cuda", "codegen", "codegen-cuda", "write".
struct PhaseInfo {
  std::string name;
  std::string description; // of what it does, for progress and --help
};

inline constexpr const char *phase_read = "read";
inline constexpr const char *phase_build = "build";
inline constexpr const char *phase_unroll = "unroll-visits";
inline constexpr const char *phase_lower_cuda = "lower-cuda";
inline constexpr const char *phase_codegen = "codegen";
inline constexpr const char *phase_codegen_cuda = "codegen-cuda";
inline constexpr const char *phase_write = "write";

struct PhaseChoice {
  bool unroll = false; // the optional phase that turns visits into straight-line code
  bool cpu = true;     // code for CPUs
  bool cuda = false;   // step programs and code for GPUs
};
std::vector<PhaseInfo> compilePhases(const PhaseChoice &choice);

} // namespace smelt::driver
