#include "tests/bench/Placement.h"

#include "tests/bench/Statistics.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace smelt::bench {

namespace {
// One way between cores of one L3 takes about 25 ns on AMD EPYC Zen 4 and 65 ns across the mesh of an Intel
// Xeon of the Sapphire Rapids family; between two L3s it takes about 150 ns (both measured).
constexpr double kSharedCacheSeconds = 100e-9;
constexpr int kRoundTrips = 40000;
} // namespace

PlacementProbe probePlacement() {
  if (std::thread::hardware_concurrency() < 2) {
    return {};
  }
  alignas(128) std::atomic<int> ball{0};
  std::atomic<double> best{1.0};
  timeOnThreads(2, [&](unsigned worker) {
    double start = now(), shortest = 1.0;
    for (int i = 0; i < kRoundTrips; ++i) {
      int mine = 2 * i + static_cast<int>(worker);
      while (ball.load(std::memory_order_acquire) != mine) {
      }
      ball.store(mine + 1, std::memory_order_release);
      if (worker == 0 && i % 2048 == 2047) {
        double end = now();
        shortest = std::min(shortest, (end - start) / 2048 / 2);
        start = end;
      }
    }
    if (worker == 0) {
      best = shortest;
    }
  });
  return {best < kSharedCacheSeconds ? Placement::shared_cache : Placement::split, best};
}

const char *placementName(Placement placement) {
  switch (placement) {
  case Placement::single:
    return "one cpu";
  case Placement::shared_cache:
    return "one L3";
  case Placement::split:
    return "two L3s";
  }
  return "?";
}

} // namespace smelt::bench
