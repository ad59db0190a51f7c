#include "runtime/src/ThreadPool.h"

#include "runtime/src/SystemCpus.h"

#include <fmt/format.h>

#include <csignal>
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

// Moves new threads to CPUs of their own, when there is one for each, and leaves them free to go elsewhere.
// Some kernels start a thread on its creator's CPU although another is idle, and the two share it for tens of
// milliseconds: threads that wait for each other by yielding have always just run, too lately to be moved.
class Spread {
public:
  explicit Spread(int32_t workers) {
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
      cpus = startingCpus(allowed, sched_getcpu(), workers);
    }
  }

  void place(int32_t worker, std::thread &thread) const {
    if (cpus.empty()) {
      return;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[size_t(worker) - 1], &one);
    if (pthread_setaffinity_np(thread.native_handle(), sizeof one, &one) == 0) {
      pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed);
    }
  }

private:
  cpu_set_t allowed;
  std::vector<int> cpus;
};

} // namespace

template <typename Done> void ThreadPool::await(std::atomic<uint32_t> &value, Done done) {
  for (int i = 0; i < spins; ++i) {
    if (done(value.load(std::memory_order_acquire))) {
      return;
    }
    pause();
  }
  for (uint32_t seen; !done(seen = value.load(std::memory_order_acquire));) {
    value.wait(seen, std::memory_order_acquire);
  }
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int32_t workers) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  SignalsBlocked guard;
  Spread spread(workers);
  pool->threads.reserve(size_t(workers) - 1);
  for (int32_t worker = 1; worker < workers; ++worker) {
    try {
      pool->threads.emplace_back([raw = pool.get(), worker] { raw->work(worker); });
      spread.place(worker, pool->threads.back());
    } catch (const std::system_error &error) {
      return fail(SMELT_memory, fmt::format("thread {} of {} cannot be started: {}; ask for fewer threads",
                                            worker + 1, workers, error.what()));
    }
  }
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
  launch.fetch_add(1, std::memory_order_release);
  launch.notify_all();
  newTask(newContext, 0, count);
  await(running, [](uint32_t left) { return left == 0; });
}

void ThreadPool::work(int32_t worker) {
  for (uint32_t seen = 0;;) {
    await(launch, [seen](uint32_t now) { return now != seen; });
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
