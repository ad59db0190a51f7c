#include "tests/compiler/Codegen/CUDA/PrefillHarness.h"

#include "compiler/Codegen/CUDA/Kernels.h"
#include "tests/support/cuda/TestDevice.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>

namespace smelt::codegen::cuda::test {

uint16_t bf16Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) {
    return 0x7fff;
  }
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float bf16Value(uint16_t half) {
  uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

int32_t bitsOf(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

Floats randomFloats(size_t count, uint32_t seed, float scale, float offset) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float &value : values) {
    value = offset + scale * normal(generator);
  }
  return values;
}

Floats randomWeights(size_t count, uint32_t seed, float scale, float offset) {
  Floats values = randomFloats(count, seed, scale, offset);
  std::transform(values.begin(), values.end(), values.begin(), roundBf16);
  return values;
}

std::vector<uint16_t> packVector(const Floats &values) {
  std::vector<uint16_t> packed(values.size());
  std::transform(values.begin(), values.end(), packed.begin(), bf16Bits);
  return packed;
}

std::vector<uint16_t> packRows(const Floats &values, int64_t rows, int64_t columns) {
  std::vector<uint16_t> packed(rows * rowStride(columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      packed[i * rowStride(columns) + j] = bf16Bits(values[i * columns + j]);
    }
  }
  return packed;
}

std::vector<uint16_t> packTiles(const Floats &values, int64_t experts, int64_t rows, int64_t columns) {
  int64_t stride = expertStride(rows, columns) / 2;
  std::vector<uint16_t> packed(experts * stride);
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        int64_t width = std::min<int64_t>(TILE, paddedColumns(columns) - j / TILE * TILE);
        int64_t block = i % TILE / 8 * (width / 8) + j % TILE / 8;
        int64_t at = tileOffset(rows, columns, i / TILE, j / TILE) + block * 64 + i % 8 * 8 + j % 8;
        packed[e * stride + at] = bf16Bits(values[(e * rows + i) * columns + j]);
      }
    }
  }
  return packed;
}

Doubles normalise(const float *x, const Floats &weight, float epsilon) {
  double squares = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    squares += static_cast<double>(x[i]) * x[i];
  }
  Doubles y(weight.size());
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = x[i] / std::sqrt(squares / y.size() + epsilon) * weight[i];
  }
  return y;
}

double relativeError(const Floats &a, const Doubles &b) {
  REQUIRE(a.size() == b.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : std::sqrt(error / norm);
}

namespace {

struct Compiled {
  CompiledKernel kernel;
  std::unique_ptr<tests::TestModule> module;
};

const Compiled &compiled(const KernelDesc &kernel, const std::string &chip) {
  // Never destroyed: the driver library may be gone before.
  static auto &cache = *new std::map<std::string, Compiled>;
  std::string key = chip + "/" + kernel.name;
  for (auto &[name, value] : kernel.params) {
    key += " " + name + "=" + std::to_string(value);
  }
  auto [it, isNew] = cache.try_emplace(key);
  if (isNew) {
    CompiledTarget target;
    std::string error;
    bool ok = compileKernels({{kernel, StepLength::any}}, *findTarget(chip),
                             {.ptx_only = true, .progress = {}}, target, error);
    INFO(kernel.name << " for " << chip << ": " << error);
    REQUIRE(ok);
    it->second.kernel = target.kernels.front();
    it->second.module = std::make_unique<tests::TestModule>(tests::TestDevice::get().load(target.ptx));
  }
  return it->second;
}

unsigned blocksOf(const GridSize &g, const StepSizes &s) {
  int64_t units =
      g.fixed + g.per_token * s.tokens + g.per_logit_row * s.logit_rows + g.per_position * s.capacity;
  int64_t blocks = std::max<int64_t>((units + g.divisor - 1) / g.divisor, 1);
  return static_cast<unsigned>(g.limit ? std::min(blocks, g.limit) : blocks);
}

} // namespace

void runKernel(const KernelDesc &kernel, const std::string &chip, const std::vector<Buffer *> &bindings,
               const Ints &constants, const StepSizes &s) {
  const Compiled &code = compiled(kernel, chip);
  tests::TestDevice &device = tests::TestDevice::get();
  std::map<Buffer *, tests::DeviceBuffer> uploaded;
  std::vector<tests::KernelArgument> arguments;
  for (Buffer *buffer : bindings) {
    auto it = uploaded.find(buffer);
    if (it == uploaded.end()) {
      it = uploaded.emplace(buffer, device.upload(buffer->bytes)).first;
    }
    arguments.emplace_back(it->second);
  }
  for (int32_t constant : constants) {
    arguments.emplace_back(constant);
  }
  const ScratchSize &size = code.kernel.scratch;
  int64_t bytes = size.bytes + size.per_token * s.tokens + size.per_logit_row * s.logit_rows +
                  size.per_position * s.capacity;
  tests::DeviceBuffer scratch = device.upload(std::vector<uint8_t>(std::max<int64_t>(bytes, 16), 0xff));
  tests::DeviceBuffer tickets = device.upload(Ints(TICKETS, 0));
  arguments.emplace_back(scratch);
  arguments.emplace_back(tickets);
  for (const Stage &stage : code.kernel.stages) {
    tests::LaunchShape shape;
    for (int i = 0; i < 3; ++i) {
      shape.grid[i] = blocksOf(stage.grid[i], s);
    }
    shape.block[0] = static_cast<unsigned>(stage.threads);
    shape.shared_bytes = static_cast<unsigned>(stage.shared_bytes);
    INFO(stage.function);
    code.module->run(stage.function, shape, arguments);
    CHECK(tickets.read<int32_t>() == Ints(TICKETS, 0));
  }
  for (auto &[buffer, memory] : uploaded) {
    buffer->bytes = memory.read<uint8_t>();
  }
}

const std::vector<std::string> &testedChips() {
  static const std::vector<std::string> chips = {"sm_80", "sm_90a"};
  return chips;
}

} // namespace smelt::codegen::cuda::test
