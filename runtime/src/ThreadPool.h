// Workers that run one function at a time, all together. The caller is worker 0. Between runs that follow
// each other closely, and at barriers, workers spin; after some 50 microseconds they sleep. Neither a run nor
// a barrier allocates or locks.
#pragma once

#include "runtime/src/Status.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace smelt::runtime {

class ThreadPool {
public:
  using Task = void (*)(void *context, int32_t worker, int32_t workers);

  // `workers` counts the caller. Where they are as many as the CPUs the caller may use, each starts on one of
  // its own, and is kept to one during a run that finds the others asleep; otherwise all may go wherever the
  // caller may. SMELT_memory when a thread cannot be started.
  static Result<std::unique_ptr<ThreadPool>> create(int32_t workers);
  ~ThreadPool();

  int32_t workers() const { return int32_t(threads.size()) + 1; }
  // Runs task(context, w, workers()) on every worker w and returns when all have returned; what they wrote is
  // visible to the caller.
  void run(Task task, void *context);

  // Barriers within one run. Every worker has its own, counts its own calls, and all must make the same.
  class Barrier {
  public:
    explicit Barrier(ThreadPool &pool) : pool(pool), target(pool.arrivalsBefore) {}
    // Returns when all workers have come here; what they wrote before is visible to all.
    void meet();

  private:
    ThreadPool &pool;
    uint32_t target; // arrivals of all workers up to this barrier; wraps
  };

private:
  ThreadPool() = default;
  class Placement;
  void work(int32_t worker);
  template <typename Done> static bool spin(const std::atomic<uint32_t> &value, Done done);
  template <typename Done> static void await(std::atomic<uint32_t> &value, Done done);

  Task task = nullptr;
  void *context = nullptr;
  bool stopping = false;
  uint32_t arrivalsBefore = 0; // at barriers of earlier runs
  std::vector<std::thread> threads;
  // Each on a cache line of its own: the first is read by all, the others written by all.
  alignas(64) std::atomic<uint32_t> launch{0};
  alignas(64) std::atomic<uint32_t> running{0};
  alignas(64) std::atomic<uint32_t> arrivals{0};
  alignas(64) std::atomic<uint32_t> asleep{0}; // workers that wait for a launch and do not spin
};

} // namespace smelt::runtime
