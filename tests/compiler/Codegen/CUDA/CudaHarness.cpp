#include "tests/compiler/Codegen/CUDA/CudaHarness.h"

#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>
#include <random>

namespace smelt::codegen::test {

using tests::DeviceBuffer;
using tests::TestDevice;

cuda::KernelRequest request(const std::string &role, cuda::StepLength length, const Params &params) {
  cuda::KernelRequest request;
  request.kernel.role = role;
  request.kernel.name = role;
  request.kernel.params = params;
  for (const auto &[name, value] : params) {
    request.kernel.name += "_" + name + std::to_string(value);
  }
  request.length = length;
  return request;
}

int64_t evaluate(const cuda::GridSize &size, const StepSizes &step) {
  int64_t total = size.fixed + size.per_token * step.tokens + size.per_logit_row * step.logit_rows +
                  size.per_position * step.positions;
  int64_t blocks = std::max<int64_t>(1, (total + size.divisor - 1) / size.divisor);
  return size.limit ? std::min(blocks, size.limit) : blocks;
}

DeviceKernel::DeviceKernel(const cuda::KernelRequest &request, const std::string &chip,
                           const std::function<void(std::string &ptx)> &edit) {
  cuda::CompileOptions options;
  options.ptx_only = true;
  std::string error;
  bool compiles = cuda::compileKernels({request}, *cuda::findTarget(chip), options, compiled, error);
  INFO(error);
  REQUIRE(compiles);
  if (edit) {
    edit(compiled.ptx);
  }
  module = std::make_unique<tests::TestModule>(TestDevice::get().load(compiled.ptx));
}

void DeviceKernel::run(const std::vector<uint64_t> &bindings, const std::vector<int32_t> &constants,
                       const StepSizes &step) const {
  constexpr size_t tickets = 4096;
  const cuda::ScratchSize &size = kernel().scratch;
  int64_t bytes = size.bytes + size.per_token * step.tokens + size.per_logit_row * step.logit_rows +
                  size.per_position * step.positions;
  DeviceBuffer scratch = blank(static_cast<size_t>(std::max<int64_t>(bytes, 16)));
  DeviceBuffer counters = uploadInts(std::vector<int32_t>(tickets, 0));
  std::vector<tests::KernelArgument> arguments(bindings.begin(), bindings.end());
  arguments.insert(arguments.end(), constants.begin(), constants.end());
  arguments.push_back(scratch);
  arguments.push_back(counters);
  for (const cuda::Stage &stage : kernel().stages) {
    tests::LaunchShape shape;
    for (int i = 0; i < 3; ++i) {
      shape.grid[i] = static_cast<unsigned>(evaluate(stage.grid[i], step));
    }
    shape.block[0] = static_cast<unsigned>(stage.threads);
    shape.shared_bytes = static_cast<unsigned>(stage.shared_bytes);
    module->run(stage.function, shape, arguments);
    auto left = counters.read<int32_t>();
    REQUIRE(std::all_of(left.begin(), left.end(), [](int32_t count) { return count == 0; }));
  }
}

DeviceBuffer uploadFloats(const Floats &values) { return TestDevice::get().upload(values); }
DeviceBuffer uploadInts(const std::vector<int32_t> &values) { return TestDevice::get().upload(values); }
DeviceBuffer blank(size_t bytes) { return TestDevice::get().upload(std::vector<uint8_t>(bytes, 0xff)); }

uint16_t roundToBf16(float value) {
  auto bits = static_cast<uint32_t>(bitsOf(value));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float bf16ToFloat(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

Floats randomFloats(size_t count, uint32_t seed, float scale) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float &value : values) {
    value = scale * normal(generator);
  }
  return values;
}

Weights::Weights(Layout layout, int64_t rows, int64_t columns, uint32_t seed, float scale, float offset,
                 int64_t matrices)
    : layout(layout), rows(rows), columns(columns), matrices(matrices),
      values(randomFloats(matrices * rows * columns, seed, scale)), buffer(blank(16)) {
  int64_t elements = layout == Layout::rows    ? rows * cuda::rowStride(columns)
                     : layout == Layout::tiles ? matrices * cuda::expertStride(rows, columns) / 2
                                               : matrices * rows * columns;
  std::vector<uint16_t> packed(elements, 0);
  for (int64_t m = 0, i = 0; m < matrices; ++m) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c, ++i) {
        uint16_t bits = roundToBf16(values[i] + offset);
        values[i] = bf16ToFloat(bits);
        packed[place(m, r, c)] = bits;
      }
    }
  }
  buffer = TestDevice::get().upload(packed);
}

int64_t Weights::place(int64_t matrix, int64_t row, int64_t column) const {
  using cuda::TILE;
  switch (layout) {
  case Layout::vector:
    return (matrix * rows + row) * columns + column;
  case Layout::rows:
    return row * cuda::rowStride(columns) + column;
  case Layout::tiles:
    break;
  }
  int64_t i = row / TILE, j = column / TILE;
  int64_t width = std::min(TILE, cuda::paddedColumns(columns) - j * TILE);
  int64_t block = (row % TILE / 8) * (width / 8) + column % TILE / 8;
  return matrix * cuda::expertStride(rows, columns) / 2 + cuda::tileOffset(rows, columns, i, j) + 64 * block +
         row % 8 * 8 + column % 8;
}

WeightTraffic Weights::traffic() const {
  std::vector<uint8_t> counts = buffer.reads();
  WeightTraffic traffic;
  for (uint8_t count : counts) {
    traffic.bytes += count;
  }
  traffic.padding_bytes = traffic.bytes;
  for (int64_t m = 0; m < matrices; ++m) {
    for (int64_t r = 0; r < rows; ++r) {
      bool repeated = false;
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t byte = 2 * place(m, r, c), end = byte + 2; byte < end; ++byte) {
          traffic.padding_bytes -= counts[byte];
          traffic.unread_bytes += counts[byte] == 0;
          repeated |= counts[byte] > 1;
        }
      }
      traffic.repeated_rows += repeated;
    }
  }
  return traffic;
}

double relativeError(const Floats &a, const std::vector<double> &b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i])) {
      return std::numeric_limits<double>::infinity();
    }
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

std::vector<double> normalised(const Floats &x, int64_t rows, int64_t width, const Weights &weight,
                               double eps) {
  std::vector<double> result(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) {
      squares += static_cast<double>(x[r * width + i]) * x[r * width + i];
    }
    double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (int64_t i = 0; i < width; ++i) {
      result[r * width + i] = x[r * width + i] * inverse * weight[i];
    }
  }
  return result;
}

} // namespace smelt::codegen::test
