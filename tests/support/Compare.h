// How far apart two sets of numbers are.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace smelt::tests {

// ||actual - expected|| / ||expected||; infinity when sizes differ, NaN when a value is NaN.
template <typename A, typename B>
double relativeL2(const std::vector<A> &actual, const std::vector<B> &expected) {
  if (actual.size() != expected.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double e = expected[i];
    difference += (actual[i] - e) * (actual[i] - e);
    norm += e * e;
  }
  return std::sqrt(difference / norm);
}

} // namespace smelt::tests
