// What stops a launch.
#pragma once

#include "tests/support/cuda/sim/Program.h"

namespace smelt::emu {

/// Values of CUresult that device code can cause.
enum class FaultCode : int {
  IllegalAddress = 700,
  LaunchTimeout = 702,
  MisalignedAddress = 716,
  IllegalInstruction = 715,
  LaunchFailed = 719,
};

struct Fault : std::runtime_error {
  Fault(FaultCode code, const std::string &message) : std::runtime_error(message), code(code) {}
  FaultCode code;
};

std::string format(const char *text, ...) __attribute__((format(printf, 1, 2)));

/// Throws a Fault that names kernel, PTX line, CTA and the thread at `lane`.
[[noreturn]] void fail(const Warp &warp, const Instr &in, uint32_t lane, FaultCode code,
                       const std::string &reason);

} // namespace smelt::emu
