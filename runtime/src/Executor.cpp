#include "runtime/src/Executor.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/StepRunner.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <bit>
#include <chrono>

namespace smelt::runtime {

using namespace artifact;

namespace {

using Clock = std::chrono::steady_clock;

// Of one worker on data in its L2 cache.
double nanosecondsOf(const LaunchCost &cost) {
  constexpr double bytesPerNanosecond = 16, flopsPerNanosecond = 16;
  return cost.bytes / bytesPerNanosecond + cost.flops / flopsPerNanosecond;
}

// An artifact's code has no type signature in front of its entries, where this sanitizer would read one.
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
int32_t call(smelt_kernel_fn entry, const smelt_kernel_args &args, int32_t worker, int32_t workers) {
  return entry(&args, worker, workers);
}

} // namespace

// One step, as all workers see it.
struct Executor::Walk {
  static constexpr uint32_t never = UINT32_MAX;

  Executor &executor;
  const Program &program;
  const StepTraffic &step;
  uint64_t firstToken;
  const Watch &watch;
  // Nothing runs after this launch. It is set before the next barrier, and those who are ahead of it have not
  // passed that one: so all stop at the same.
  std::atomic<uint32_t> stopAfter{never};
  std::atomic<int32_t> code{0}; // of the kernel that failed; otherwise the step was interrupted
};

// One worker's way along the launches.
class Executor::Walker {
public:
  Walker(Walk &walk, int32_t worker, int32_t workers)
      : walk(walk), executor(walk.executor), worker(worker), workers(workers), barrier(*executor.pool) {
    args.scratch = reinterpret_cast<char *>(executor.scratch.data());
    args.scratch_stride = executor.scratchStride;
  }

  void run() {
    auto count = uint32_t(walk.program.launches().size());
    before = walk.watch.profile ? Clock::now() : Clock::time_point();
    for (uint32_t i = 0; i < count; ++i) {
      bool all = isShared(i), meets = all || (i + 1 < count && isShared(i + 1));
      if (all || worker == 0) {
        runLaunch(i, all);
      }
      if (!all) {
        observe(i);
      }
      if (meets) {
        barrier.meet();
      }
      if ((meets || workers == 1) && walk.stopAfter.load(std::memory_order_relaxed) <= i) {
        return;
      }
      if (all && isObserved()) {
        observe(i);
        barrier.meet(); // nobody goes on meanwhile
      }
    }
  }

private:
  bool isShared(uint32_t index) const { return workers > 1 && executor.shared[index]; }
  bool isObserved() const { return walk.watch.profile || walk.watch.probe; }

  void runLaunch(uint32_t index, bool all) {
    if (worker == 0 && StepRunner::take(walk.watch.interrupted)) {
      stopAfter(index);
    }
    if (worker == 0 && walk.stopAfter.load(std::memory_order_relaxed) != Walk::never) {
      return;
    }
    const Launch &launch = walk.program.launches()[index];
    args.bindings = walk.program.bindings(launch);
    args.constants = walk.program.constants(launch);
    args.ticket = &nextTicket(all);
    int32_t code = call(launch.entry, args, worker, all ? workers : 1);
    if (code != 0) {
      walk.code.store(code, std::memory_order_relaxed);
      stopAfter(index);
    }
  }

  void stopAfter(uint32_t index) { walk.stopAfter.store(index, std::memory_order_relaxed); }

  int64_t &nextTicket(bool all) {
    if (!all) {
      return executor.tickets[2].value = 0;
    }
    turn ^= 1;
    if (worker == 0) {
      executor.tickets[turn ^ 1].value = 0; // all have left the launch it was for
    }
    return executor.tickets[turn].value;
  }

  void observe(uint32_t index) {
    if (worker != 0 || !isObserved() || walk.stopAfter.load(std::memory_order_relaxed) != Walk::never) {
      return;
    }
    const Launch &launch = walk.program.launches()[index];
    if (walk.watch.profile) {
      double seconds = std::chrono::duration<double>(Clock::now() - before).count();
      walk.watch.profile->add(launch, walk.step, seconds);
    }
    if (walk.watch.probe) {
      executor.callProbe(walk.program, launch, walk.step, walk.firstToken, walk.watch);
    }
    before = Clock::now();
  }

  Walk &walk;
  Executor &executor;
  int32_t worker, workers;
  ThreadPool::Barrier barrier;
  smelt_kernel_args args = {};
  int turn = 0;
  Clock::time_point before; // the launch that is observed next started
};

Executor::Executor(const ProgramTables &tables, std::unique_ptr<ThreadPool> pool, Memory scratch,
                   uint64_t scratchStride, uint32_t minSharedNanoseconds)
    : tables(tables), pool(std::move(pool)), scratch(std::move(scratch)), scratchStride(scratchStride),
      minSharedNanoseconds(minSharedNanoseconds) {}

Status Executor::run(Program &program, const StepTraffic &step, uint64_t firstToken, const Watch &watch) {
  program.setStep(step.extent);
  share(program, step);
  tickets[0].value = tickets[1].value = 0;
  Walk walk{*this, program, step, firstToken, watch};
  if (anyShared) {
    pool->run([](void *walk, int32_t worker,
                 int32_t workers) { Walker(*static_cast<Walk *>(walk), worker, workers).run(); },
              &walk);
  } else {
    Walker(walk, 0, 1).run();
  }
  if (walk.stopAfter == Walk::never) {
    return success();
  }
  if (walk.code != 0) {
    return kernelFailed(program.launches()[walk.stopAfter], walk.code);
  }
  return fail(SMELT_interrupted, "stopped between two kernels");
}

void Executor::share(const Program &program, const StepTraffic &step) {
  // The cache grows by a position a step: its size matters by powers of two.
  bool known = shared.size() == program.launches().size() && sharedFor.extent == step.extent &&
               std::bit_width(sharedFor.cachedPositions) == std::bit_width(step.cachedPositions);
  if (known) {
    return;
  }
  sharedFor = step;
  shared.clear();
  anyShared = false;
  for (const Launch &launch : program.launches()) {
    shared.push_back(nanosecondsOf(launchCost(launch, tables, step)) >= minSharedNanoseconds);
    anyShared |= shared.back();
  }
  anyShared &= pool->workers() > 1;
}

Status Executor::kernelFailed(const Launch &launch, int32_t code) const {
  const Kernel &kernel = *tables.kernels.Get(launch.kernel);
  return fail(SMELT_internal,
              fmt::format("kernel '{}' ({}) failed with code {} in block {} call {}, visit {}, layer {}",
                          printable(kernel.name()->string_view()), printable(kernel.role()->string_view()),
                          code, launch.block, launch.callIndex, launch.visit, launch.layer));
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
