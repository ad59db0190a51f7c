#include "compiler/Weights/QuantError.h"

#include "runtime/src/Quantize.h"

#include <algorithm>
#include <cmath>

namespace smelt::weights {

double QuantError::relativeL2() const { return weights > 0 ? std::sqrt(errors / weights) : 0; }

void QuantError::add(const QuantError &other) {
  weights += other.weights;
  errors += other.errors;
  half_step = std::max(half_step, other.half_step);
  largest = std::max(largest, other.largest);
  count += other.count;
}

void QuantError::addRow(const float *values, uint64_t columns, const int8_t *codes, const uint16_t *scales) {
  using runtime::quantBlock;
  for (uint64_t begin = 0; begin < columns; begin += quantBlock) {
    float scale;
    runtime::widenBf16(&scales[begin / quantBlock], &scale, 1);
    double squares = 0, lost = 0;
    for (uint64_t i = begin; i < std::min(begin + quantBlock, columns); ++i) {
      float difference = values[i] - static_cast<float>(codes[i]) * scale;
      squares += static_cast<double>(values[i]) * values[i];
      lost += static_cast<double>(difference) * difference;
      largest = std::max(largest, std::fabs(difference));
    }
    weights += squares;
    errors += lost;
    half_step = std::max(half_step, scale / 2);
  }
  count += columns;
}

} // namespace smelt::weights
