#include "runtime/src/Executor.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <chrono>

namespace smelt::runtime {

using namespace artifact;

Executor::Executor(const Manifest &manifest, std::unique_ptr<ThreadPool> pool, Memory scratch,
                   uint64_t scratchStride)
    : manifest(manifest), pool(std::move(pool)), scratch(std::move(scratch)) {
  shared.args.ticket = &ticket;
  shared.args.scratch = reinterpret_cast<char *>(this->scratch.data());
  shared.args.scratch_stride = scratchStride;
}

// An artifact's code has no type signature in front of its entries, where this sanitizer would read one.
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
void Executor::work(void *context, int32_t worker, int32_t workers) {
  auto &shared = *static_cast<Shared *>(context);
  if (int32_t code = shared.entry(&shared.args, worker, workers); code != 0) {
    shared.code.store(code, std::memory_order_relaxed);
  }
}

Status Executor::run(Program &program, const StepTraffic &step, uint64_t firstToken) {
  using Clock = std::chrono::steady_clock;
  program.setStep(step.extent);
  Clock::time_point before = profile ? Clock::now() : Clock::time_point();
  for (const Launch &launch : program.launches()) {
    if (interrupted.load(std::memory_order_relaxed) && interrupted.exchange(false)) {
      return fail(SMELT_interrupted, "stopped between two kernels");
    }
    shared.entry = launch.entry;
    shared.args.bindings = program.bindings(launch);
    shared.args.constants = program.constants(launch);
    shared.code.store(0, std::memory_order_relaxed);
    ticket = 0;
    pool->run(work, &shared);
    if (shared.code.load(std::memory_order_relaxed) != 0) {
      return kernelFailed(launch);
    }
    if (profile) {
      Clock::time_point now = Clock::now();
      profile->add(launch, step, std::chrono::duration<double>(now - before).count());
      before = Clock::now();
    }
    if (probe) {
      callProbe(program, launch, step, firstToken);
    }
  }
  return success();
}

Status Executor::kernelFailed(const Launch &launch) const {
  const Kernel &kernel = *manifest.kernels()->Get(launch.kernel);
  return fail(SMELT_internal,
              fmt::format("kernel '{}' ({}) failed with code {} in block {} call {}, visit {}, layer {}",
                          printable(kernel.name()->string_view()), printable(kernel.role()->string_view()),
                          shared.code.load(), launch.block, launch.callIndex, launch.visit, launch.layer));
}

void Executor::callProbe(const Program &program, const Launch &launch, const StepTraffic &step,
                         uint64_t firstToken) const {
  const Kernel &kernel = *manifest.kernels()->Get(launch.kernel);
  for (uint32_t i = 0; i < kernel.bindings()->size(); ++i) {
    const KernelBinding &use = *kernel.bindings()->Get(i);
    const Binding &binding = *launch.call->bindings()->Get(i);
    if (use.access() == Access::read || binding.kind() > BindingKind::state_slot) {
      continue;
    }
    const Buffer &buffer = *manifest.buffers()->Get(binding.index());
    const Size &size = *use.size();
    smelt_probe event = {};
    event.buffer = buffer.name()->c_str();
    event.kernel = kernel.name()->c_str();
    event.role = kernel.role()->c_str();
    event.block = launch.block;
    event.call = launch.callIndex;
    event.visit = launch.visit;
    event.layer = launch.layer;
    event.slot = binding.kind() == BindingKind::state_slot ? int64_t(launch.slot) : -1;
    event.dtype = smelt_dtype(buffer.dtype());
    event.data = program.bindings(launch)[i];
    event.rows = size.per_token() ? step.extent.tokens : size.per_logit_row() ? step.extent.logitRows : 1;
    event.row_bytes = size.per_token() ? size.per_token() : size.per_logit_row();
    event.bytes = *evaluate(size, step.extent); // at most the plan's, which did not overflow
    event.first_token = firstToken;
    probe(probeUser, &event);
  }
}

} // namespace smelt::runtime
