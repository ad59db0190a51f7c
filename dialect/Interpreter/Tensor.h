// What the interpreter computes with. Free of LLVM, so that tests of the arithmetic compile quickly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace mlir::smelt::interpreter {

// A row-major tensor of doubles. Token ids and expert indices are stored as doubles too, which hold every
// 32-bit integer exactly.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> values;

  Tensor() = default;
  explicit Tensor(std::vector<int64_t> shape)
      : shape(std::move(shape)),
        values(std::accumulate(this->shape.begin(), this->shape.end(), std::size_t(1), std::multiplies<>())) {
  }
  Tensor(std::vector<int64_t> shape, std::vector<double> values)
      : shape(std::move(shape)), values(std::move(values)) {}

  // The size of the last dimension, and how many vectors of that size there are.
  int64_t width() const { return shape.back(); }
  int64_t rows() const { return static_cast<int64_t>(values.size()) / width(); }
  double *row(int64_t index) { return values.data() + index * width(); }
  const double *row(int64_t index) const { return values.data() + index * width(); }
};

} // namespace mlir::smelt::interpreter
