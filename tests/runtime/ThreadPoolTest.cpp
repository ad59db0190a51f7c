#include "runtime/src/ThreadPool.h"

#include "runtime/src/SystemCpus.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <numeric>

using namespace smelt::runtime;

TEST_CASE("Every worker runs every launch exactly once") {
  for (int32_t workers = 1; workers <= 5; ++workers) {
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(workers);
    REQUIRE(pool.ok());
    REQUIRE((*pool)->workers() == workers);
    std::vector<int> calls(size_t(workers), 0); // not atomic: a launch must order what it wrote
    for (int launch = 0; launch < 2000; ++launch) {
      (*pool)->run([](void *context, int32_t worker,
                      int32_t) { ++(*static_cast<std::vector<int> *>(context))[size_t(worker)]; },
                   &calls);
      REQUIRE(std::accumulate(calls.begin(), calls.end(), 0) == (launch + 1) * workers);
    }
  }
}

TEST_CASE("Workers that went to sleep wake up") {
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(3);
  REQUIRE(pool.ok());
  std::atomic<int> calls{0};
  for (int launch = 0; launch < 5; ++launch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    (*pool)->run(
        [](void *context, int32_t worker, int32_t) {
          std::this_thread::sleep_for(std::chrono::milliseconds(worker)); // so that the caller sleeps as well
          ++*static_cast<std::atomic<int> *>(context);
        },
        &calls);
  }
  CHECK(calls == 15);
}

TEST_CASE("Nobody passes a barrier before all have come to it") {
  for (int32_t workers = 1; workers <= 4; ++workers) {
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(workers);
    REQUIRE(pool.ok());
    struct Context {
      ThreadPool &pool;
      std::vector<int> round; // by worker; not atomic: a barrier must order what it wrote
      std::atomic<int> wrong{0};
    } context{**pool, std::vector<int>(size_t(workers))};
    for (int run = 0; run < 20; ++run) {
      (*pool)->run(
          [](void *pointer, int32_t worker, int32_t workers) {
            auto &context = *static_cast<Context *>(pointer);
            ThreadPool::Barrier barrier(context.pool);
            for (int round = 1; round <= 100; ++round) {
              context.round[size_t(worker)] = round;
              if (worker == round % workers && round % 40 == 0) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1)); // the others go to sleep
              }
              barrier.meet();
              for (int other : context.round) {
                context.wrong += other != round;
              }
              barrier.meet();
            }
          },
          &context);
    }
    CHECK(context.wrong == 0);
  }
}

TEST_CASE("A pool may be dropped unused") { CHECK(ThreadPool::create(4).ok()); }

TEST_CASE("Workers start on CPUs of their own where there is one for each") {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (int cpu : {2, 3, 7, CPU_SETSIZE - 1}) {
    CPU_SET(cpu, &allowed);
  }
  CHECK(startingCpus(allowed, 3, 4) == std::vector<int>{2, 7, CPU_SETSIZE - 1});
  CHECK(startingCpus(allowed, CPU_SETSIZE - 1, 4) == std::vector<int>{2, 3, 7});
  CHECK(startingCpus(allowed, 3, 3).empty()); // which of them are idle is for the system to know
  CHECK(startingCpus(allowed, 3, 5).empty());
  CHECK(startingCpus(allowed, 4, 4).empty()); // moved meanwhile
  CHECK(startingCpus(allowed, -1, 4).empty());
}

TEST_CASE("Workers may go wherever their creator may") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  for (int32_t workers : {1, 2, CPU_COUNT(&allowed)}) {
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(workers);
    REQUIRE(pool.ok());
    std::vector<cpu_set_t> masks(size_t(workers), cpu_set_t{});
    (*pool)->run(
        [](void *context, int32_t worker, int32_t) {
          cpu_set_t &mask = (*static_cast<std::vector<cpu_set_t> *>(context))[size_t(worker)];
          sched_getaffinity(0, sizeof mask, &mask);
        },
        &masks);
    for (const cpu_set_t &mask : masks) {
      CHECK(CPU_EQUAL(&mask, &allowed));
    }
  }
}
