#include "compiler/Driver/Phases.h"

#include "compiler/Lowering/Pipeline.h"

namespace smelt::driver {

std::vector<PhaseInfo> compilePhases(bool unroll) {
  std::vector<PhaseInfo> phases = {{phase_read, "read the spec"}, {phase_build, "build the model"}};
  if (unroll) {
    phases.push_back({phase_unroll, "replace loops over visits"});
  }
  for (const lowering::Phase &phase : lowering::phases()) {
    phases.push_back({phase.name, phase.description});
  }
  phases.push_back({phase_codegen, "generate machine code"});
  phases.push_back({phase_write, "write the artifact"});
  return phases;
}

} // namespace smelt::driver
