#include "runtime/src/Profile.h"

#include "runtime/schema/manifest_generated.h"

namespace smelt::runtime {

using namespace artifact;

Profile::Profile(const ProgramTables &program) : program(program) { reset(); }

void Profile::reset() {
  entries.clear();
  for (const Kernel *kernel : program.kernels) {
    smelt_kernel_profile &entry = entries.emplace_back();
    entry.kernel = kernel->name()->c_str();
    entry.role = kernel->role()->c_str();
  }
}

void Profile::add(const CallPlace &launch, const StepTraffic &step, double seconds) {
  LaunchCost cost = launchCost(launch, program, step);
  smelt_kernel_profile &entry = entries[launch.kernel];
  ++entry.calls;
  entry.seconds += seconds;
  entry.bytes += cost.bytes;
  entry.flops += cost.flops;
}

} // namespace smelt::runtime
