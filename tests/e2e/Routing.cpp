#include "tests/e2e/Routing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <tuple>

namespace smelt::tests {

// The experts of a layer, visit and token are the interpreter's, or its scores for the ones that differ are
// as good as equal.
static void requireSameChoice(const RoutingChoice &compiled, const ScoredChoice &expected, double tolerance) {
  CAPTURE(compiled.layer, compiled.visit, compiled.token, compiled.experts, expected.logits);
  std::vector<double> ordered = expected.logits;
  std::sort(ordered.begin(), ordered.end(), std::greater<>());
  const double largest = std::max(std::abs(ordered.front()), std::abs(ordered.back()));
  const double open = tolerance * std::max(largest, 1.0);
  const double last_chosen = ordered[compiled.experts.size() - 1];
  for (const int32_t expert : compiled.experts) {
    REQUIRE(expected.logits[expert] >= last_chosen - open);
  }
}

// The runtime may cut the tokens into steps, so its order may be another.
void requireSameRouting(const std::vector<RoutingChoice> &compiled, const std::vector<ScoredChoice> &expected,
                        double tolerance) {
  const auto place = [](const RoutingChoice &choice) {
    return std::tuple(choice.layer, choice.visit, choice.token);
  };
  std::map<std::tuple<int32_t, int32_t, uint64_t>, const ScoredChoice *> by_place;
  for (const ScoredChoice &choice : expected) {
    by_place[place(choice.choice)] = &choice;
  }
  REQUIRE(compiled.size() == expected.size());
  for (const RoutingChoice &choice : compiled) {
    REQUIRE(by_place.count(place(choice)) == 1);
    requireSameChoice(choice, *by_place.at(place(choice)), tolerance);
  }
}

} // namespace smelt::tests
