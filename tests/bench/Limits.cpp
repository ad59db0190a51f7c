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
constexpr size_t kMemoryBytes = 512u << 20; // per thread
constexpr size_t kCacheBytes = 6u << 20;    // per thread: more than an L2, and two of them less than an L3

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

__attribute__((target("avx512f,avx512vnni"))) void vnni512() {
  __m512i x = _mm512_set1_epi16(1), y = _mm512_set1_epi16(1);
  SMELT_PEAK_LOOP(__m512i, _mm512_setzero_si512(), _mm512_dpwssd_epi32(acc[j], x, y))
}

#undef SMELT_PEAK_LOOP

// Reads `bytes` as `streams` runs side by side. A core reaches memory's bandwidth with one stream on some
// machines and needs several on others.
template <int streams> __attribute__((target("avx2"))) void readAll(const char *data, size_t bytes) {
  __m256i sum[8] = {};
  size_t run = bytes / streams;
  for (size_t i = 0; i < run; i += 128) {
    for (int stream = 0; stream < streams; ++stream) {
      const char *at = data + static_cast<size_t>(stream) * run + i;
      _mm_prefetch(at + 1024, _MM_HINT_T0);
      _mm_prefetch(at + 1024 + 64, _MM_HINT_T0);
      for (int j = 0; j < 4; ++j) {
        __m256i &acc = sum[(4 * stream + j) % 8];
        acc = _mm256_xor_si256(acc, _mm256_load_si256(reinterpret_cast<const __m256i *>(at + 32 * j)));
      }
    }
  }
  for (auto &s : sum) {
    asm volatile("" : "+x"(s));
  }
}

double peak(unsigned threads, void (*loop)(), double operations) {
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    best = std::min(best, timeOnThreads(threads, [&](unsigned) { loop(); }));
  }
  return operations * kAccumulators * kSteps * threads / best / 1e9;
}

// The median rate of reading `bytes` a thread, `passes` times a sample, with the number of streams that gives
// most.
double readBandwidth(unsigned threads, size_t bytes, int passes) {
  size_t total = bytes * threads;
  void *memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return 0;
  }
  madvise(memory, total, MADV_HUGEPAGE);
  char *data = static_cast<char *>(memory);
  timeOnThreads(threads, [&](unsigned worker) {
    std::fill_n(data + worker * bytes, bytes, 1); // touches the pages where they will be read
  });
  double best = 0;
  for (auto *read : {readAll<1>, readAll<4>, readAll<8>}) {
    std::vector<double> samples;
    for (int repeat = 0; repeat < 5; ++repeat) {
      double seconds = timeOnThreads(threads, [&](unsigned worker) {
        for (int pass = 0; pass < passes; ++pass) {
          read(data + worker * bytes, bytes);
        }
      });
      samples.push_back(static_cast<double>(bytes) * threads * passes / seconds / 1e9);
    }
    best = std::max(best, summarize(samples).median);
  }
  munmap(memory, total);
  return best;
}

} // namespace

Limits measureLimits(unsigned threads) {
  uint64_t features = smelt_cpu_features();
  Limits limits;
  limits.threads = threads;
  if (features & SMELT_CPU_AVX512) {
    limits.fma_gflops = peak(threads, fma512, 2 * 16);
  } else if (features & SMELT_CPU_AVX2) {
    limits.fma_gflops = peak(threads, fma256, 2 * 8);
  }
  if (features & SMELT_CPU_AVX512_BF16) {
    limits.bf16_gflops = peak(threads, dot512, 2 * 32);
  }
  if (features & SMELT_CPU_AVX512_VNNI) {
    limits.int16_gops = peak(threads, vnni512, 2 * 32);
  }
  if (features & SMELT_CPU_AVX2) {
    limits.read_gbytes = readBandwidth(threads, kMemoryBytes, 1);
    limits.l3_read_gbytes = readBandwidth(threads, kCacheBytes, 40);
  }
  return limits;
}

} // namespace smelt::bench
