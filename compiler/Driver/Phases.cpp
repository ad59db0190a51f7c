#include "compiler/Driver/Phases.h"

#include "compiler/Lowering/Pipeline.h"

namespace smelt::driver {

std::vector<PhaseInfo> compilePhases(const PhaseChoice &choice) {
  std::vector<PhaseInfo> phases = {{phase_read, "read the spec"}, {phase_build, "build the model"}};
  if (choice.unroll) {
    phases.push_back({phase_unroll, "replace loops over visits"});
  }
  for (const lowering::Phase &phase : lowering::phases()) {
    phases.push_back({phase.name, phase.description});
  }
  if (choice.cuda) {
    phases.push_back({phase_lower_cuda, "make the step programs of a GPU"});
  }
  if (choice.cpu) {
    phases.push_back({phase_codegen, "generate machine code"});
  }
  if (choice.cuda) {
    phases.push_back({phase_codegen_cuda, "generate code for GPUs"});
  }
  phases.push_back({phase_write, "write the artifact"});
  return phases;
}

} // namespace smelt::driver
