#include "tests/compiler/Import/HuggingFaceFixtures.h"

#include <catch2/catch.hpp>

namespace smelt::tests {

hf::Model readFixture(const std::string &name) {
  const hf::ModelResult result =
      hf::readConfigFile(std::string(SMELT_SOURCE_DIR) + "/tests/compiler/Import/configs/" + name + ".json");
  INFO(result.diagnostics.text());
  REQUIRE(result);
  return *result.model;
}

budget::Account accountOf(const hf::Model &model, const budget::Context &context) {
  const budget::AccountResult result = budget::accountFor(model.architecture, context);
  INFO(result.error);
  REQUIRE(result);
  return *result.account;
}

} // namespace smelt::tests
