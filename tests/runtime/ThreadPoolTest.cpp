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

namespace {

cpu_set_t currentMask() {
  cpu_set_t mask;
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  return mask;
}

const cpu_set_t allowed = [] { // before any pool
  cpu_set_t mask;
  sched_getaffinity(0, sizeof mask, &mask);
  return mask;
}();

std::vector<int> dealt(const cpu_set_t &set, int current, int32_t workers) {
  CpuDealer dealer(set, current, workers);
  std::vector<int> cpus;
  for (int cpu; (cpu = dealer.next()) >= 0;) {
    cpus.push_back(cpu);
  }
  CHECK(dealer.next() == -1);
  return cpus;
}

} // namespace

TEST_CASE("Every worker gets a CPU of its own where there is exactly one for each") {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : {2, 3, 7, CPU_SETSIZE - 1}) {
    CPU_SET(cpu, &set);
  }
  CHECK(dealt(set, 3, 4) == std::vector<int>{2, 7, CPU_SETSIZE - 1});
  CHECK(dealt(set, CPU_SETSIZE - 1, 4) == std::vector<int>{2, 3, 7});
  CHECK(dealt(set, 3, 3).empty()); // which of them are idle is for the system to know
  CHECK(dealt(set, 3, 5).empty());
  CHECK(dealt(set, 4, 4).empty()); // moved meanwhile
  CHECK(dealt(set, -1, 4).empty());
}

TEST_CASE(
    "Workers that are woken have CPUs of their own where there is one for each, and are free after it") {
  int32_t cpus = CPU_COUNT(&allowed);
  for (int32_t workers : {1, 2, cpus, cpus + 1}) {
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(workers);
    REQUIRE(pool.ok());
    std::vector<cpu_set_t> masks(size_t(workers), cpu_set_t{});
    auto look = [&] {
      (*pool)->run(
          [](void *masks, int32_t worker, int32_t) {
            cpu_set_t &mask = (*static_cast<std::vector<cpu_set_t> *>(masks))[size_t(worker)];
            sched_getaffinity(0, sizeof mask, &mask);
          },
          &masks);
      cpu_set_t after = currentMask();
      CHECK(CPU_EQUAL(&after, &allowed));
    };
    for (int round = 0; round < 3; ++round) {
      for (int tries = 0; tries < 500; ++tries) { // until the workers have gone to sleep, on a busy machine
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        look();
        if (workers != cpus || CPU_COUNT(&masks[0]) == 1) {
          break;
        }
      }
      cpu_set_t all;
      CPU_ZERO(&all);
      for (const cpu_set_t &mask : masks) {
        CPU_OR(&all, &all, &mask);
        CHECK(CPU_COUNT(&mask) == (workers == cpus ? 1 : cpus));
      }
      CHECK(CPU_EQUAL(&all, &allowed));
    }
  }
}

TEST_CASE("Workers go where they may when their caller may not use as many CPUs") {
  cpu_set_t one;
  int32_t workers = CPU_COUNT(&allowed);
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(workers);
  REQUIRE(pool.ok());
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::vector<cpu_set_t> masks(size_t(workers), cpu_set_t{});
  (*pool)->run(
      [](void *masks, int32_t worker, int32_t) {
        cpu_set_t &mask = (*static_cast<std::vector<cpu_set_t> *>(masks))[size_t(worker)];
        sched_getaffinity(0, sizeof mask, &mask);
      },
      &masks);
  for (int32_t worker = 0; worker < workers; ++worker) {
    CHECK(CPU_EQUAL(&masks[size_t(worker)], worker == 0 ? &one : &allowed));
  }
  REQUIRE(sched_setaffinity(0, sizeof allowed, &allowed) == 0);
}
