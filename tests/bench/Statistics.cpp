#include "tests/bench/Statistics.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <pthread.h>
#include <sched.h>
#include <thread>

namespace smelt::bench {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) {
    return {};
  }
  std::sort(samples.begin(), samples.end());
  auto quantile = [&](double q) { return samples[static_cast<size_t>(q * (samples.size() - 1) + 0.5)]; };
  double median = quantile(0.5);
  return {median, (quantile(0.75) - quantile(0.25)) / median};
}

double timeOnThreads(unsigned threads, const std::function<void(unsigned)> &body) {
  std::atomic<unsigned> ready{0};
  std::vector<double> begin(threads), end(threads);
  auto work = [&](unsigned worker) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(worker, &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus); // best effort: a container may forbid it
    ++ready;
    while (ready.load() < threads) {
    }
    begin[worker] = now();
    body(worker);
    end[worker] = now();
  };
  std::vector<std::thread> pool;
  for (unsigned worker = 0; worker < threads; ++worker) {
    pool.emplace_back(work, worker);
  }
  for (std::thread &thread : pool) {
    thread.join();
  }
  return *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
}

} // namespace smelt::bench
