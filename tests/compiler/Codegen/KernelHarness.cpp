#include "tests/compiler/Codegen/KernelHarness.h"

#include "smelt/artifact.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <sys/mman.h>
#include <thread>

namespace smelt::codegen::test {

std::vector<const cpu::IsaLevel *> runnableLevels() {
  uint64_t features = 0;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v3")) {
    features |= SMELT_CPU_AVX2;
  }
  if (__builtin_cpu_supports("x86-64-v4")) {
    features |= SMELT_CPU_AVX512;
  }
  if (__builtin_cpu_supports("avx512bf16")) {
    features |= SMELT_CPU_AVX512_BF16;
  }
  if (__builtin_cpu_supports("avx512vnni")) {
    features |= SMELT_CPU_AVX512_VNNI;
  }
  std::vector<const cpu::IsaLevel *> levels;
  for (const cpu::IsaLevel &level : cpu::isaLevels()) {
    if ((level.required & ~features) == 0) {
      levels.push_back(&level);
    }
  }
  return levels;
}

namespace {
// Tests run one kernel with several numbers of workers and inputs; compiling is what takes the time.
const cpu::CompiledKernels &compileOnce(const KernelDesc &kernel, const cpu::IsaLevel &level) {
  static std::map<std::pair<std::string, std::map<std::string, int64_t>>, cpu::CompiledKernels> cache;
  auto [entry, isNew] = cache.try_emplace({level.name + " " + kernel.role, kernel.params});
  if (isNew) {
    std::string error;
    bool ok = cpu::compileKernels({kernel}, {&level}, {}, entry->second, error);
    INFO(error);
    REQUIRE(ok);
  }
  return entry->second;
}
} // namespace

LoadedKernel::LoadedKernel(const KernelDesc &kernel, const cpu::IsaLevel &level) {
  const cpu::CompiledKernels &compiled = compileOnce(kernel, level);
  const cpu::CodeImage &image = compiled.images.front();
  size = image.bytes.size();
  entry = image.entries.front();
  scratch = (compiled.scratch_bytes.front() + 63) / 64 * 64;
  memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  std::memcpy(memory, image.bytes.data(), size);
  REQUIRE(mprotect(memory, size, PROT_READ | PROT_EXEC) == 0);
}

LoadedKernel::~LoadedKernel() { munmap(memory, size); }

void LoadedKernel::run(const std::vector<void *> &bindings, const std::vector<int32_t> &constants,
                       int workers) const {
  alignas(64) int64_t ticket = 0;
  // Guard words behind each worker's share show a kernel that uses more than it said.
  constexpr size_t kGuard = 64;
  size_t stride = scratch + kGuard;
  std::vector<char> memoryForScratch(stride * workers + 64);
  char *base =
      memoryForScratch.data() + (64 - reinterpret_cast<uintptr_t>(memoryForScratch.data()) % 64) % 64;
  std::memset(base, 0xff, stride * workers);
  smelt_kernel_args args = {bindings.data(), constants.data(), &ticket, base, stride, {0, 0, 0}};
  auto function = reinterpret_cast<smelt_kernel_fn>(static_cast<char *>(memory) + entry);
  std::vector<int32_t> results(workers, -1);
  std::vector<std::thread> threads;
  for (int worker = 1; worker < workers; ++worker) {
    threads.emplace_back([&, worker] { results[worker] = function(&args, worker, workers); });
  }
  results[0] = function(&args, 0, workers);
  for (std::thread &thread : threads) {
    thread.join();
  }
  for (int worker = 0; worker < workers; ++worker) {
    REQUIRE(results[worker] == 0);
    for (size_t i = 0; i < kGuard; ++i) {
      REQUIRE(base[worker * stride + scratch + i] == static_cast<char>(0xff));
    }
  }
}

Floats randomFloats(size_t count, uint32_t seed, float scale) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  Floats values(count);
  for (float &value : values) {
    value = normal(generator);
  }
  return values;
}

uint16_t roundToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) {
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float fromBf16(uint16_t half) {
  uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

Weights::Weights(WeightType type, size_t count, uint32_t seed, float scale, float offset) : type(type) {
  values = randomFloats(count, seed, scale);
  size_t width = type == WeightType::bf16 ? 2 : 4;
  bytes.resize(1 + count * width);
  for (size_t i = 0; i < count; ++i) {
    values[i] += offset;
    if (type == WeightType::bf16) {
      uint16_t half = roundToBf16(values[i]);
      values[i] = fromBf16(half);
      std::memcpy(&bytes[1 + 2 * i], &half, 2);
    } else {
      std::memcpy(&bytes[1 + 4 * i], &values[i], 4);
    }
  }
}

Weights Weights::matrix(WeightType type, size_t rows, size_t columns, uint32_t seed, float scale) {
  if (type != WeightType::i8) {
    return Weights(type, rows * columns, seed, scale);
  }
  Weights weights(WeightType::bf16, 0, seed);
  weights.type = type;
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> codes(-127, 127), exponents(0, 4);
  std::uniform_real_distribution<float> mantissas(1, 2);
  weights.bytes.resize(1 + rows * columns);
  for (size_t n = 0; n < rows; ++n) {
    for (size_t k = 0; k < columns; ++k) {
      if (k % 32 == 0) {
        float step = scale / 1000 * std::ldexp(mantissas(generator), exponents(generator));
        weights.scales.push_back(roundToBf16(step));
      }
      int code = codes(generator);
      weights.bytes[1 + n * columns + k] = static_cast<char>(code);
      weights.values.push_back(static_cast<float>(code) * fromBf16(weights.scales.back()));
    }
  }
  return weights;
}

void *Weights::alignedPanels(size_t count) {
  packedBytes.assign(count + 64, 0);
  return packedBytes.data() + (64 - reinterpret_cast<uintptr_t>(packedBytes.data()) % 64) % 64;
}

void *Weights::packed(size_t rows) {
  if (type == WeightType::i8) {
    return packedCodes(rows);
  }
  size_t columns = values.size() / rows, width = type == WeightType::bf16 ? 2 : 4;
  size_t step = type == WeightType::bf16 ? 2 : 1, steps = (columns + step - 1) / step;
  auto *base = static_cast<char *>(alignedPanels((rows + 15) / 16 * steps * 64));
  for (size_t n = 0; n < rows; ++n) {
    for (size_t k = 0; k < columns; ++k) {
      char *to = base + (n / 16 * steps + k / step) * 64 + (n % 16 * step + k % step) * width;
      std::memcpy(to, &bytes[1 + (n * columns + k) * width], width);
    }
  }
  return base;
}

// For every 64 columns a line of scales [2][16], then lines of codes [16][4] plus 128.
void *Weights::packedCodes(size_t rows) {
  size_t columns = values.size() / rows, blocks = (columns + 31) / 32;
  size_t lines = (columns + 3) / 4 + (columns + 63) / 64;
  auto *base = static_cast<char *>(alignedPanels((rows + 15) / 16 * lines * 64));
  for (size_t n = 0; n < (rows + 15) / 16 * 16; ++n) {
    char *panel = base + n / 16 * lines * 64;
    for (size_t k = 0; k < (columns + 3) / 4 * 4; ++k) {
      int code = n < rows && k < columns ? bytes[1 + n * columns + k] : 0;
      panel[(k / 64 * 17 + 1 + k % 64 / 4) * 64 + n % 16 * 4 + k % 4] = static_cast<char>(code + 128);
    }
    for (size_t block = 0; n < rows && block < blocks; ++block) {
      std::memcpy(panel + block / 2 * 17 * 64 + block % 2 * 32 + n % 16 * 2, &scales[n * blocks + block], 2);
    }
  }
  return base;
}

std::vector<double> asOperands(const Floats &row, const cpu::IsaLevel &level, WeightType type) {
  std::vector<double> operands(row.begin(), row.end());
  if (type == WeightType::i8) {
    double largest = 0;
    for (double value : operands) {
      largest = std::max(largest, std::abs(value));
    }
    // The smallest power of two that keeps the largest below 2^15 once it is rounded.
    double unit = largest > 0 ? std::exp2(std::ilogb(largest) - 14) : 1;
    unit *= std::nearbyint(largest / unit) < 32768 ? 1 : 2;
    for (double &value : operands) {
      value = std::nearbyint(value / unit) * unit;
    }
  } else if (level.bf16_dot && type == WeightType::bf16) {
    for (double &value : operands) {
      value = fromBf16(roundToBf16(static_cast<float>(value)));
    }
  }
  return operands;
}

double operandTolerance(const cpu::IsaLevel &level, WeightType type) {
  return type == WeightType::i8 ? 1e-4 : level.bf16_dot && type == WeightType::bf16 ? 1e-3 : 2e-6;
}

double relativeError(const Floats &a, const std::vector<double> &b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::sqrt(difference / norm);
}

namespace {
void forTypes(const std::vector<WeightType> &types, const VariantBody &body) {
  static const char *const names[] = {" f32 ", " bf16 ", " i8 "};
  std::vector<const cpu::IsaLevel *> levels = runnableLevels();
  if (levels.empty()) {
    WARN("skipped: this machine has no AVX2");
  }
  for (const cpu::IsaLevel *level : levels) {
    for (WeightType type : types) {
      if (!level->gains(type)) {
        continue; // the same code as the next level's
      }
      for (int workers : {1, 2, 3}) {
        INFO(level->name << names[static_cast<int64_t>(type)] << workers << " workers");
        body(*level, type, workers);
      }
    }
  }
}
} // namespace

void forEveryVariant(const VariantBody &body) { forTypes({WeightType::f32, WeightType::bf16}, body); }

void forEveryMatrixVariant(const VariantBody &body) {
  forTypes({WeightType::f32, WeightType::bf16, WeightType::i8}, body);
}

} // namespace smelt::codegen::test
