// What the machine can do at most, measured in the same run as everything else.
#pragma once

namespace smelt::bench {

struct Limits {
  double fma_gflops = 0;  // f32 multiply-adds from registers, counted as two operations
  double bf16_gflops = 0; // VDPBF16PS from registers; 0 where the CPU has none
  double read_gbytes = 0; // sequential reads of memory far larger than the caches, 1e9 bytes a second
};

// Of `threads` threads together.
Limits measureLimits(unsigned threads);

} // namespace smelt::bench
