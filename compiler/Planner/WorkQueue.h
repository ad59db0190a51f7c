// Independent units of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace smelt::planner {

// How many threads to use when `asked` (0: one for each processor) and units of work are this many.
unsigned threadCount(unsigned asked, size_t units);

// Calls work(thread, unit) once for each unit, the early ones first, and progress(part done) now and then
// from one thread at a time. work must not throw.
void runUnits(unsigned threads, size_t units, const std::function<void(unsigned, size_t)> &work,
              const std::function<void(double)> &progress);

} // namespace smelt::planner
