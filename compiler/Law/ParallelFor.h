// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace smelt::law {

// Calls work(0) … work(count - 1), each once, from up to `threads` threads (0: one a core) and in no order;
// work must not throw.
void parallelFor(size_t count, unsigned threads, const std::function<void(size_t)> &work);

} // namespace smelt::law
