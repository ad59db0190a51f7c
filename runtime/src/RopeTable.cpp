#include "runtime/src/RopeTable.h"

#include <cmath>
#include <vector>

namespace smelt::runtime {

void fillRopeTable(float *table, uint64_t capacity, uint32_t dim, double theta) {
  uint32_t half = dim / 2;
  std::vector<double> frequency(half);
  for (uint32_t i = 0; i < half; ++i) {
    frequency[i] = std::pow(theta, -2.0 * i / dim);
  }
  for (uint64_t position = 0; position < capacity; ++position) {
    float *row = table + position * dim;
    for (uint32_t i = 0; i < half; ++i) {
      double angle = double(position) * frequency[i];
      row[i] = float(std::cos(angle));
      row[half + i] = float(std::sin(angle));
    }
  }
}

} // namespace smelt::runtime
