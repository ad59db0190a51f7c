// What the machine can do at most, measured in the same run as everything else.
#pragma once

namespace smelt::bench {

// Of a number of threads together; 0 where the CPU lacks the instruction.
struct Limits {
  unsigned threads = 0;
  double fma_gflops = 0;     // f32 multiply-adds from registers, counted as two operations
  double bf16_gflops = 0;    // VDPBF16PS from registers
  double int16_gops = 0;     // VPDPWSSD from registers
  double read_gbytes = 0;    // reads of memory far larger than the caches, 1e9 bytes a second
  double l3_read_gbytes = 0; // reads that miss the L2 caches and hit the L3
};

Limits measureLimits(unsigned threads);

} // namespace smelt::bench
