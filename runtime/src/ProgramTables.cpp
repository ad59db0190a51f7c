#include "runtime/src/ProgramTables.h"

namespace smelt::runtime {

using namespace artifact;

std::optional<smelt_probe> probeOf(const ProgramTables &program, const CallPlace &place, uint32_t index,
                                   const Extent &step) {
  const Kernel &kernel = *program.kernels.Get(place.kernel);
  const KernelBinding &use = *kernel.bindings()->Get(index);
  const Binding &binding = *place.call->bindings()->Get(index);
  if (use.access() == Access::read || binding.kind() > BindingKind::state_slot) {
    return std::nullopt;
  }
  const Buffer &buffer = *program.buffers.Get(binding.index());
  const Size &size = *use.size();
  smelt_probe event = {};
  event.buffer = buffer.name()->c_str();
  event.kernel = kernel.name()->c_str();
  event.role = kernel.role()->c_str();
  event.block = place.block;
  event.call = place.callIndex;
  event.visit = place.visit;
  event.layer = place.layer;
  event.slot = binding.kind() == BindingKind::state_slot ? int64_t(place.slot) : -1;
  event.dtype = smelt_dtype(buffer.dtype());
  event.rows = size.per_token() ? step.tokens : size.per_logit_row() ? step.logitRows : 1;
  event.row_bytes = size.per_token() ? size.per_token() : size.per_logit_row();
  event.bytes = *evaluate(size, step); // at most the plan's, which did not overflow
  return event;
}

} // namespace smelt::runtime
