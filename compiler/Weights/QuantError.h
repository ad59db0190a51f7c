// How far quantising moved weights; what `weights quantize` prints.
#pragma once

#include <cstdint>

namespace smelt::weights {

// Of the weights seen so far. Sums are of squares.
struct QuantError {
  double weights = 0;  // sum over w
  double errors = 0;   // sum over w - w'
  float half_step = 0; // the largest scale / 2: no weight moved by more
  float largest = 0;   // |w - w'|
  uint64_t count = 0;  // of weights

  double relativeL2() const;
  void add(const QuantError &other);
  // A row that runtime::quantizeRow has quantised.
  void addRow(const float *values, uint64_t columns, const int8_t *codes, const uint16_t *scales);
};

} // namespace smelt::weights
