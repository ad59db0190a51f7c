// Splits loops over rows among threads. Each row is computed by one thread, the same way whichever it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace mlir::smelt::interpreter {

// Calls body(i) for each i in [0, count). `work` is the number of multiplications of one call; loops too
// small to repay starting threads run on the calling one.
template <typename Body> void parallelFor(int64_t count, int64_t work, const Body &body) {
  constexpr int64_t kWorthAThread = 1 << 18;
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  threads =
      std::clamp<int64_t>(count * work / kWorthAThread, 1, std::min(threads, std::max<int64_t>(count, 1)));
  // Interleaved, since later rows of an attention have more to do.
  auto share = [&](int64_t first) {
    for (int64_t i = first; i < count; i += threads) {
      body(i);
    }
  };
  std::vector<std::thread> others;
  for (int64_t first = 1; first < threads; ++first) {
    others.emplace_back(share, first);
  }
  share(0);
  for (std::thread &other : others) {
    other.join();
  }
}

} // namespace mlir::smelt::interpreter
