// Every field of a spec changes what the model computes: a field without effect is a bug.
#include "tests/e2e/Fixture.h"
#include "tests/support/Compare.h"
#include "tests/support/InterpretedModel.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

using namespace smelt;
using namespace smelt::tests;

namespace {

std::vector<double> interpreted(const spec::ModelSpec &spec, const std::vector<int32_t> &tokens) {
  return InterpretedModel(spec, randomWeights(spec, Precision::f32, 1)).run(tokens).logits;
}

} // namespace

// Weights of the same name and shape have the same values in both models. A few fields mean nothing in some
// specs (the order of one layer visited once, renormalising when all are chosen); in some spec each of them
// must matter.
TEST_CASE("a change of any field changes the logits") {
  const std::set<std::string> sometimes_idle = {"order", "router", "renormalize"};
  std::map<std::string, int> effects;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const spec::ModelSpec spec = generateSpec(seed);
    const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 9, seed);
    const std::vector<double> before = interpreted(spec, tokens);
    for (const FieldChange &change : fieldChanges(spec)) {
      const std::string field = change.field.substr(change.field.find_last_of('.') + 1);
      if (field == "name") { // what the model is called, not what it computes
        continue;
      }
      const std::vector<double> after = interpreted(change.spec, tokens);
      const bool differs = before.size() != after.size() || relativeL2(after, before) > 1e-9;
      effects[field] += differs;
      CAPTURE(spec.name, change.field);
      CHECK((differs || sometimes_idle.count(field)));
    }
  }
  CHECK(effects.size() >= 20);
  for (const auto &[field, count] : effects) {
    CAPTURE(field);
    CHECK(count > 0);
  }
}
