#include "compiler/Law/ParallelFor.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace smelt::law {

void parallelFor(size_t count, unsigned threads, const std::function<void(size_t)> &work) {
  if (threads == 0) {
    threads = std::max(1U, std::thread::hardware_concurrency());
  }
  std::atomic<size_t> next = 0;
  auto loop = [&] {
    for (size_t i = next++; i < count; i = next++) {
      work(i);
    }
  };
  std::vector<std::jthread> others;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) {
    others.emplace_back(loop);
  }
  loop();
}

} // namespace smelt::law
