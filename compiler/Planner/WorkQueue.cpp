#include "compiler/Planner/WorkQueue.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace smelt::planner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBetweenReports = std::chrono::milliseconds(200);

// Passes the progress on, but not too often.
class Reporter {
public:
  Reporter(size_t units, const std::function<void(double)> &progress) : units(units), progress(progress) {}

  void unitDone() {
    const size_t done = ++finished;
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (progress && lock && Clock::now() - last >= kBetweenReports) {
      last = Clock::now();
      progress(static_cast<double>(done) / static_cast<double>(units));
    }
  }

private:
  const size_t units;
  const std::function<void(double)> &progress;
  std::atomic<size_t> finished = 0;
  std::mutex mutex;
  Clock::time_point last = Clock::now();
};

} // namespace

unsigned threadCount(unsigned asked, size_t units) {
  const unsigned threads = asked > 0 ? asked : std::max(1u, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::clamp<size_t>(units, 1, threads));
}

void runUnits(unsigned threads, size_t units, const std::function<void(unsigned, size_t)> &work,
              const std::function<void(double)> &progress) {
  std::atomic<size_t> next = 0;
  Reporter reporter(units, progress);
  const auto loop = [&](unsigned thread) {
    for (size_t unit = next++; unit < units; unit = next++) {
      work(thread, unit);
      reporter.unitDone();
    }
  };
  std::vector<std::jthread> others;
  for (unsigned thread = 1; thread < threads; ++thread) {
    others.emplace_back(loop, thread);
  }
  loop(0);
}

} // namespace smelt::planner
