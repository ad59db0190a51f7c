// How long cuBLASLt takes for the products of a step, and what it costs when pointers or rows are less
// aligned.
#include "runtime/src/cuda/GemmLibrary.h"
#include "tests/gpu/Limits.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>

namespace smelt::gpu {
namespace {

using namespace runtime::cuda;
using nlohmann::ordered_json;

// What of the operands is aligned to so many bytes and no more; the rest is to at least 16. f32 to at
// least 4.
struct Alignment {
  bool pointers = false, rows = false;
  unsigned bytes = 16;

  std::string text() const {
    return fmt::format("{} aligned to {} bytes",
                       pointers && rows ? "all"
                       : rows           ? "rows"
                                        : "pointers",
                       bytes);
  }
};
constexpr Alignment alignments[] = {{true, true, 16}, {false, true, 8}, {false, true, 4}, {false, true, 2},
                                    {true, false, 8}, {true, false, 4}, {true, false, 2}};

// Elements from row to row for rows of `width`.
uint64_t strideOf(uint64_t width, unsigned elementBytes, const Alignment &alignment) {
  uint64_t unit = 16 / elementBytes;
  uint64_t stride = (width + unit - 1) / unit * unit;
  unsigned bytes = std::max(alignment.bytes, elementBytes);
  return alignment.rows && bytes < 16 ? stride + bytes / elementBytes : stride;
}
// Bytes from an address aligned to 256 to the first element.
uint64_t startOf(unsigned elementBytes, const Alignment &alignment) {
  unsigned bytes = std::max(alignment.bytes, elementBytes);
  return alignment.pointers && bytes < 16 ? bytes : 0;
}

// Element (row, column) of a matrix: one of 257 multiples of 1/128, which bf16 has.
float element(uint32_t seed, uint64_t row, uint64_t column) {
  uint32_t x = seed + uint32_t(row) * 0x9e3779b1U + uint32_t(column) * 0x85ebca6bU;
  x = (x ^ x >> 16) * 0x7feb352dU;
  x = (x ^ x >> 15) * 0x846ca68bU;
  return (float((x ^ x >> 16) % 257) - 128) / 128;
}
uint16_t bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return uint16_t(bits >> 16);
}

constexpr uint32_t activationSeed = 1, weightSeed = 2;

std::vector<uint16_t> matrix(uint32_t seed, uint64_t rows, uint64_t columns, uint64_t stride) {
  std::vector<uint16_t> values(rows * stride, 0);
  for (uint64_t r = 0; r < rows; ++r) {
    for (uint64_t c = 0; c < columns; ++c) {
      values[r * stride + c] = bf16(element(seed, r, c));
    }
  }
  return values;
}

// As many equal weights in turn as caches do not hold: a step finds none of its own there.
constexpr uint64_t coldBytes = 128 << 20, mostCopies = 64;

// One product in one alignment, with its operands on the GPU.
class Product {
public:
  Product(const Bench &bench, const ProductShape &shape, const Alignment &alignment);

  // Seconds of one product; none when there is no algorithm for it. Throws when results are wrong.
  std::optional<double> time(GemmLibrary &library);

private:
  void upload(DevicePtr to, const std::vector<uint16_t> &values) const;
  void compare() const;

  const Bench &bench;
  ProductShape shape;
  Gemm gemm;
  uint64_t resultStart, copies, copyBytes;
  DeviceMemory activations, weights, result, workspace;
};

Product::Product(const Bench &bench, const ProductShape &shape, const Alignment &alignment)
    : bench(bench), shape(shape), resultStart(startOf(4, alignment)) {
  gemm.rows = shape.rows;
  gemm.outputs = shape.outputs;
  gemm.depth = shape.depth;
  gemm.activationStride = gemm.weightStride = strideOf(shape.depth, 2, alignment);
  gemm.resultStride = strideOf(shape.outputs, 4, alignment);
  uint64_t start = startOf(2, alignment);
  uint64_t weightBytes = shape.outputs * gemm.weightStride * 2;
  copies = std::clamp<uint64_t>((coldBytes + weightBytes - 1) / weightBytes, 1, mostCopies);
  copyBytes = (weightBytes + start + 255) / 256 * 256;
  activations = bench.allocate(start + shape.rows * gemm.activationStride * 2);
  weights = bench.allocate(copies * copyBytes);
  result = bench.allocate(resultStart + shape.rows * gemm.resultStride * 4);
  workspace = bench.allocate(GemmLibrary::workspaceBytes);
  gemm.activations = activations.address() + start;
  gemm.weight = weights.address() + start;
  gemm.result = result.address() + resultStart;
  upload(gemm.activations, matrix(activationSeed, shape.rows, shape.depth, gemm.activationStride));
  std::vector<uint16_t> values = matrix(weightSeed, shape.outputs, shape.depth, gemm.weightStride);
  for (uint64_t i = 0; i < copies; ++i) {
    upload(gemm.weight + i * copyBytes, values);
  }
}

void Product::upload(DevicePtr to, const std::vector<uint16_t> &values) const {
  bench.expect(bench.device->api.memcpyToDevice(to, values.data(), values.size() * 2, bench.stream.get()),
               "copy to it");
  bench.wait();
}

std::optional<double> Product::time(GemmLibrary &library) {
  if (!take(library.prepare(gemm))) {
    return std::nullopt;
  }
  bench.set(result, 0xff); // NaN
  OwnedGraphExec graph = bench.capture([&] {
    for (uint64_t i = 0; i < copies; ++i) {
      Gemm next = gemm;
      next.weight += i * copyBytes;
      check(library.run(next, workspace.address(), bench.stream.get()));
    }
  });
  double seconds = bench.time([&] { bench.replay(graph); }) / double(copies);
  compare();
  return seconds;
}

// A few results of every row.
void Product::compare() const {
  constexpr uint64_t samples = 8;
  auto bytes = bench.download<std::byte>(result);
  double difference = 0, norm = 0;
  for (uint64_t r = 0; r < shape.rows; ++r) {
    for (uint64_t sample = 0; sample < samples; ++sample) {
      uint64_t n = (r * 7919 + sample * shape.outputs / samples) % shape.outputs;
      double expected = 0;
      for (uint64_t k = 0; k < shape.depth; ++k) {
        expected += double(element(activationSeed, r, k)) * element(weightSeed, n, k);
      }
      float actual = NAN;
      std::memcpy(&actual, bytes.data() + resultStart + (r * gemm.resultStride + n) * 4, 4);
      difference += (actual - expected) * (actual - expected);
      norm += expected * expected;
    }
  }
  double error = std::sqrt(difference / norm);
  if (!(error < 1e-4)) { // a NaN is wrong as well
    throw std::runtime_error(fmt::format("{} differs by {:.1e} from what it should be", shape.text(), error));
  }
}

} // namespace

std::string ProductShape::text() const { return fmt::format("{} x {} x {}", rows, outputs, depth); }

void measureProducts(const Bench &bench, const std::vector<ProductShape> &shapes, ordered_json &results) {
  std::string notice;
  std::unique_ptr<GemmLibrary> library = take(GemmLibrary::open(
      bench.device, runtime::GemmChoice::automatic, [&](const std::string &text) { notice = text; }));
  if (!library) {
    return skip(results, "products by cuBLASLt",
                notice.empty() ? "there is none (SMELT_CUBLAS_LIBRARY names one)" : notice);
  }
  for (const ProductShape &shape : shapes) {
    for (const Alignment &alignment : alignments) {
      std::optional<double> seconds = Product(bench, shape, alignment).time(*library);
      if (!seconds) {
        skip(results, shape.text() + ", " + alignment.text(), "cuBLASLt has no algorithm for it");
        continue;
      }
      std::string what = fmt::format("cuBLASLt {}, {}", shape.text(), alignment.text());
      fmt::print("  {}: {:.2f} us\n", what, *seconds * 1e6);
      results["products"].push_back({{"what", what},
                                     {"rows", shape.rows},
                                     {"outputs", shape.outputs},
                                     {"depth", shape.depth},
                                     {"aligned", alignment.text()},
                                     {"seconds", *seconds}});
    }
  }
}

} // namespace smelt::gpu
