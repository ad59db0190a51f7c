// Reads little-endian f32 and f64 matrices of npy files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace smelt::tests {

struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<double> values; // row-major
};

// Throws std::runtime_error with the path when the file is not such a matrix.
Matrix readNpy(const std::string &path);

} // namespace smelt::tests
