#include "runtime/src/LaunchCost.h"

#include "runtime/schema/manifest_generated.h"

#include <algorithm>

namespace smelt::runtime {

using namespace artifact;

namespace {

// Rows a launch works on: tokens, logit rows, or (token, expert) pairs, as its first constant says.
double rowsOf(const CallPlace &launch, const Kernel &kernel, const Extent &step) {
  const auto &constants = *launch.call->constants();
  if (constants.size() && constants.Get(0)->kind() == ConstantKind::logit_row_count) {
    return double(step.logitRows);
  }
  return double(step.tokens) * kernel.rows_per_token();
}

double bytesOf(const CallPlace &launch, const ProgramTables &program, const Kernel &kernel,
               const StepTraffic &step) {
  double total = 0;
  for (uint32_t i = 0; i < kernel.bindings()->size(); ++i) {
    const KernelBinding &use = *kernel.bindings()->Get(i);
    const Binding &binding = *launch.call->bindings()->Get(i);
    const Size &size = *use.size();
    double fixed = double(size.bytes()), tokens = double(step.extent.tokens);
    if (binding.kind() == BindingKind::weight_table) {
      double experts = program.weights.Get(binding.index())->experts();
      total += fixed * std::min(experts, rowsOf(launch, kernel, step.extent)); // at most one tensor per pair
      continue;
    }
    if (binding.kind() == BindingKind::weight && kernel.role()->string_view() == "embed") {
      fixed *= std::min(1.0, tokens / double(program.vocabSize)); // one row of the table per token
    }
    // Of positions a step writes its tokens' and reads those the cache holds.
    double positions = use.access() == Access::read ? double(step.cachedPositions) : tokens;
    double once = fixed + double(size.per_token()) * tokens +
                  double(size.per_logit_row()) * double(step.extent.logitRows) +
                  double(size.per_position()) * tokens + double(size.per_kv_position()) * positions;
    total += use.access() == Access::read_write ? 2 * once : once;
  }
  return total;
}

} // namespace

LaunchCost launchCost(const CallPlace &launch, const ProgramTables &program, const StepTraffic &step) {
  const Kernel &kernel = *program.kernels.Get(launch.kernel);
  return {bytesOf(launch, program, kernel, step),
          double(kernel.flops_per_row()) * rowsOf(launch, kernel, step.extent) +
              double(kernel.flops_per_token()) * double(step.extent.tokens)};
}

} // namespace smelt::runtime
