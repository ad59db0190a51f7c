// Weights made from their names: any model has them, and no two tensors are alike.
#pragma once

#include "dialect/Interpreter/WeightSource.h"

#include <cmath>
#include <set>

namespace smelt::tests {

class HashedWeights : public mlir::smelt::interpreter::WeightSource {
public:
  std::optional<std::vector<double>> read(const std::string &name, const std::vector<int64_t> &shape,
                                          mlir::smelt::interpreter::WeightElement, std::string &) override {
    names.insert(name);
    uint64_t state = 14695981039346656037u;
    for (unsigned char c : name) {
      state = (state ^ c) * 1099511628211u;
    }
    size_t size = 1;
    for (int64_t dimension : shape) {
      size *= dimension;
    }
    // Norm weights (one dimension) near 1, matrices of about unit gain.
    const double offset = shape.size() == 1 ? 1 : 0,
                 scale = shape.size() == 1 ? 0.3 : 2 / std::sqrt(double(shape[1]));
    std::vector<double> values(size);
    for (double &value : values) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      value = offset + scale * (double(state >> 40) / (1 << 24) - 0.5);
    }
    return values;
  }

  std::set<std::string> names; // that were read
};

} // namespace smelt::tests
