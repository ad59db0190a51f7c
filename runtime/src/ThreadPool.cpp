#include "runtime/src/ThreadPool.h"

#include "runtime/src/SystemCpus.h"

#include <fmt/format.h>

#include <csignal>
#include <optional>
#include <sched.h>
#include <system_error>

namespace smelt::runtime {
namespace {

// A pause is about 140 cycles on current cores.
constexpr int spins = 1000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Threads start with every signal blocked, so that the host's handlers run on its own threads.
class SignalsBlocked {
public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

private:
  sigset_t before;
};

} // namespace

// Keeps every worker, the caller's thread among them, to a CPU of its own while it is in scope, if there is
// exactly one for each; afterwards all may go wherever the caller might. Some kernels start a thread on its
// creator's CPU, or wake it on its waker's, although another is idle: so do guests whose idle CPUs the host
// has taken back. The two then share it for tens of milliseconds, since threads that wait for each other by
// yielding have always just run, too lately to be moved.
class ThreadPool::Placement {
public:
  explicit Placement(ThreadPool &pool) : pool(pool) {
    int current = sched_getcpu();
    if (pool.threads.empty() || sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
      return;
    }
    CpuDealer dealer(allowed, current, pool.workers());
    while (placed < pool.threads.size()) {
      int cpu = dealer.next();
      if (cpu < 0 || !confine(pool.threads[placed].native_handle(), cpu)) {
        return; // which only makes things slower
      }
      ++placed;
    }
    confine(pthread_self(), current);
  }
  Placement(const Placement &) = delete;
  ~Placement() {
    for (size_t i = 0; i < placed; ++i) {
      pthread_setaffinity_np(pool.threads[i].native_handle(), sizeof allowed, &allowed);
    }
    if (placed > 0) {
      pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
    }
  }

private:
  static bool confine(pthread_t thread, int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return pthread_setaffinity_np(thread, sizeof one, &one) == 0;
  }

  ThreadPool &pool;
  cpu_set_t allowed;
  size_t placed = 0; // threads
};

template <typename Done> bool ThreadPool::spin(const std::atomic<uint32_t> &value, Done done) {
  for (int i = 0; i < spins; ++i) {
    if (done(value.load(std::memory_order_acquire))) {
      return true;
    }
    pause();
  }
  return false;
}

template <typename Done> void ThreadPool::await(std::atomic<uint32_t> &value, Done done) {
  if (spin(value, done)) {
    return;
  }
  for (uint32_t seen; !done(seen = value.load(std::memory_order_acquire));) {
    value.wait(seen, std::memory_order_acquire);
  }
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int32_t workers) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  SignalsBlocked guard;
  pool->threads.reserve(size_t(workers) - 1);
  for (int32_t worker = 1; worker < workers; ++worker) {
    try {
      pool->threads.emplace_back([raw = pool.get(), worker] { raw->work(worker); });
    } catch (const std::system_error &error) {
      return fail(SMELT_memory, fmt::format("thread {} of {} cannot be started: {}; ask for fewer threads",
                                            worker + 1, workers, error.what()));
    }
  }
  Placement placement(*pool); // they start where they are to run
  return pool;
}

ThreadPool::~ThreadPool() {
  stopping = true;
  launch.fetch_add(1, std::memory_order_release);
  launch.notify_all();
  for (std::thread &thread : threads) {
    thread.join();
  }
}

void ThreadPool::run(Task newTask, void *newContext) {
  int32_t count = workers();
  if (count == 1) {
    return newTask(newContext, 0, 1);
  }
  task = newTask;
  context = newContext;
  arrivalsBefore = arrivals.load(std::memory_order_relaxed);
  running.store(uint32_t(count - 1), std::memory_order_relaxed);
  std::optional<Placement> placement;
  if (asleep.load(std::memory_order_relaxed) == threads.size()) { // others spin where they are to run
    placement.emplace(*this);
  }
  launch.fetch_add(1, std::memory_order_release);
  launch.notify_all();
  newTask(newContext, 0, count);
  await(running, [](uint32_t left) { return left == 0; });
}

void ThreadPool::work(int32_t worker) {
  for (uint32_t seen = 0;;) {
    auto isNext = [seen](uint32_t now) { return now != seen; };
    if (!spin(launch, isNext)) {
      asleep.fetch_add(1, std::memory_order_relaxed);
      await(launch, isNext);
      asleep.fetch_sub(1, std::memory_order_relaxed);
    }
    ++seen;
    if (stopping) {
      return;
    }
    task(context, worker, workers());
    if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      running.notify_one();
    }
  }
}

void ThreadPool::Barrier::meet() {
  target += uint32_t(pool.workers());
  if (pool.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 == target) {
    pool.arrivals.notify_all();
    return;
  }
  // Others may be at the next barrier already.
  await(pool.arrivals, [target = target](uint32_t now) { return int32_t(now - target) >= 0; });
}

} // namespace smelt::runtime
