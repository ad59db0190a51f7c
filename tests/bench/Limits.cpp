#include "tests/bench/Limits.h"

#include "smelt/artifact.h"
#include "smelt/runtime.h"
#include "tests/bench/Statistics.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <immintrin.h>
#include <memory>
#include <sys/mman.h>
#include <vector>

namespace smelt::bench {

namespace {

constexpr int kAccumulators = 12; // more than latency times pipes on every core of interest
constexpr int64_t kSteps = 4'000'000;
constexpr size_t kReadBytes = 512u << 20; // per thread

// The empty asm makes each accumulator opaque, so that the loop is neither folded nor hoisted.
#define SMELT_PEAK_LOOP(Vector, zero, step)                                                                  \
  Vector acc[kAccumulators];                                                                                 \
  for (auto &a : acc) {                                                                                      \
    a = zero;                                                                                                \
  }                                                                                                          \
  for (int64_t i = 0; i < kSteps; ++i) {                                                                     \
    _Pragma("GCC unroll 12") for (int j = 0; j < kAccumulators; ++j) {                                       \
      acc[j] = step;                                                                                         \
      asm volatile("" : "+v"(acc[j]));                                                                       \
    }                                                                                                        \
  }

__attribute__((target("avx2,fma"))) void fma256() {
  __m256 x = _mm256_set1_ps(1.0f), y = _mm256_set1_ps(0.5f);
  SMELT_PEAK_LOOP(__m256, _mm256_setzero_ps(), _mm256_fmadd_ps(x, y, acc[j]))
}

__attribute__((target("avx512f"))) void fma512() {
  __m512 x = _mm512_set1_ps(1.0f), y = _mm512_set1_ps(0.5f);
  SMELT_PEAK_LOOP(__m512, _mm512_setzero_ps(), _mm512_fmadd_ps(x, y, acc[j]))
}

__attribute__((target("avx512f,avx512bf16,avx512bw,avx512vl"))) void dot512() {
  __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f80), y = (__m512bh)_mm512_set1_epi16(0x3f00);
  SMELT_PEAK_LOOP(__m512, _mm512_setzero_ps(), _mm512_dpbf16_ps(acc[j], x, y))
}

#undef SMELT_PEAK_LOOP

__attribute__((target("avx2"))) void readAll(const char *data, size_t bytes) {
  __m256i sum[8] = {};
  for (size_t i = 0; i < bytes; i += 256) {
    for (int j = 0; j < 8; ++j) {
      sum[j] =
          _mm256_xor_si256(sum[j], _mm256_load_si256(reinterpret_cast<const __m256i *>(data + i + 32 * j)));
    }
  }
  for (auto &s : sum) {
    asm volatile("" : "+x"(s));
  }
}

double peak(unsigned threads, void (*loop)(), double lanes) {
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    best = std::min(best, timeOnThreads(threads, [&](unsigned) { loop(); }));
  }
  return 2.0 * lanes * kAccumulators * kSteps * threads / best / 1e9;
}

double readBandwidth(unsigned threads) {
  size_t total = kReadBytes * threads;
  void *memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return 0;
  }
  madvise(memory, total, MADV_HUGEPAGE);
  char *data = static_cast<char *>(memory);
  std::vector<double> samples;
  for (int repeat = 0; repeat < 8; ++repeat) {
    double seconds = timeOnThreads(threads, [&](unsigned worker) {
      char *mine = data + worker * kReadBytes;
      if (repeat == 0) {
        std::fill(mine, mine + kReadBytes, 1); // touch the pages where they will be read
      }
      readAll(mine, kReadBytes);
    });
    if (repeat > 0) {
      samples.push_back(total / seconds / 1e9);
    }
  }
  munmap(memory, total);
  return summarize(samples).median;
}

} // namespace

Limits measureLimits(unsigned threads) {
  uint64_t features = smelt_cpu_features();
  Limits limits;
  if (features & SMELT_CPU_AVX512) {
    limits.fma_gflops = peak(threads, fma512, 16);
  } else if (features & SMELT_CPU_AVX2) {
    limits.fma_gflops = peak(threads, fma256, 8);
  }
  if (features & SMELT_CPU_AVX512_BF16) {
    limits.bf16_gflops = peak(threads, dot512, 32);
  }
  if (features & SMELT_CPU_AVX2) {
    limits.read_gbytes = readBandwidth(threads);
  }
  return limits;
}

} // namespace smelt::bench
