// A field without an effect is a bug. Here: every field shows in the budgets or the weights, or is one of
// those that only the numerics show, which the end-to-end tests watch.
#include "compiler/Budget/Budget.h"
#include "compiler/Spec/SpecWriter.h"
#include "compiler/Spec/WeightTable.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>
#include <set>

using namespace smelt;

namespace {

std::string weights(const spec::ModelSpec &spec) {
  std::string text;
  for (const spec::WeightDecl &weight : spec::weightTable(spec)) {
    text += weight.tensorName(weight.first_layer, 0) + " " + std::to_string(weight.tensors());
    for (int64_t dim : weight.shape) {
      text += " " + std::to_string(dim);
    }
    text += "\n";
  }
  return text;
}

// "layers" of "segment[1].layers".
std::string key(const std::string &field) { return field.substr(field.rfind('.') + 1); }

} // namespace

TEST_CASE("every change of a field changes an output") {
  const std::set<std::string> numeric{"name",  "norm_eps",    "rope_theta",    "router",
                                      "order", "renormalize", "residual_scale"};
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const spec::ModelSpec original = tests::generateSpec(seed);
    for (const tests::FieldChange &change : tests::fieldChanges(original)) {
      CAPTURE(seed, change.field);
      seen.insert(key(change.field));
      const bool counted =
          *budget::computeBudget(original).budget != *budget::computeBudget(change.spec).budget ||
          weights(original) != weights(change.spec);
      CHECK(counted != numeric.contains(key(change.field)));
      CHECK(spec::writeSpec(original) != spec::writeSpec(change.spec));
    }
  }
  CHECK(seen.size() == 23); // all but kv_cache, which has one value; hidden_size stands in two tables
}
