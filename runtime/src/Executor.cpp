#include "runtime/src/Executor.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/StepRunner.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <chrono>

namespace smelt::runtime {

using namespace artifact;

Executor::Executor(const ProgramTables &tables, std::unique_ptr<ThreadPool> pool, Memory scratch,
                   uint64_t scratchStride)
    : tables(tables), pool(std::move(pool)), scratch(std::move(scratch)) {
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

Status Executor::run(Program &program, const StepTraffic &step, uint64_t firstToken, const Watch &watch) {
  using Clock = std::chrono::steady_clock;
  program.setStep(step.extent);
  Clock::time_point before = watch.profile ? Clock::now() : Clock::time_point();
  for (const Launch &launch : program.launches()) {
    if (StepRunner::take(watch.interrupted)) {
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
    if (watch.profile) {
      Clock::time_point now = Clock::now();
      watch.profile->add(launch, step, std::chrono::duration<double>(now - before).count());
      before = Clock::now();
    }
    if (watch.probe) {
      callProbe(program, launch, step, firstToken, watch);
    }
  }
  return success();
}

Status Executor::kernelFailed(const Launch &launch) const {
  const Kernel &kernel = *tables.kernels.Get(launch.kernel);
  return fail(SMELT_internal,
              fmt::format("kernel '{}' ({}) failed with code {} in block {} call {}, visit {}, layer {}",
                          printable(kernel.name()->string_view()), printable(kernel.role()->string_view()),
                          shared.code.load(), launch.block, launch.callIndex, launch.visit, launch.layer));
}

void Executor::callProbe(const Program &program, const Launch &launch, const StepTraffic &step,
                         uint64_t firstToken, const Watch &watch) const {
  for (uint32_t i = 0; i < launch.call->bindings()->size(); ++i) {
    if (std::optional<smelt_probe> event = probeOf(tables, launch, i, step.extent)) {
      event->data = program.bindings(launch)[i];
      event->first_token = firstToken;
      watch.probe(watch.probeUser, &*event);
    }
  }
}

} // namespace smelt::runtime
