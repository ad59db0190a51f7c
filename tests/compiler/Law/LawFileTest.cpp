#include "compiler/Law/LawFile.h"
#include "compiler/Law/PublishedLaws.h"

#include <catch2/catch.hpp>

using namespace smelt;

namespace {

std::vector<std::string> problems(const std::string &text) { return law::readLaw(text).problems; }

using Problems = std::vector<std::string>;

} // namespace

TEST_CASE("what is written is read back") {
  for (const law::ScalingLaw &law : law::publishedLaws()) {
    const law::LawResult result = law::readLaw(law::writeLaw(law));
    REQUIRE(result);
    CHECK(*result.law == law);
  }
}

TEST_CASE("sparsities are written in plain per cent") {
  law::ScalingLaw law = law::loopedLaw();
  law.validity.sparsity = law::Range{0.57, 0.58};
  CHECK_THAT(law::writeLaw(law), Catch::Contains("57.0") && Catch::Contains("58.0"));
}

TEST_CASE("only the coefficients are needed") {
  const law::LawResult result =
      law::readLaw(R"({"coefficients": {"E": 1, "A": 2, "K": 3, "a": 0.4, "b": -0.5, "c": 0.6}})");
  REQUIRE(result);
  CHECK(result.law->coefficients.sparsity_exponent == -0.5);
  CHECK(result.law->flops_per_size == 1);
  CHECK(result.law->validity == law::Validity());
}

TEST_CASE("every problem of a law file is named by its key") {
  CHECK(problems("{\n\"name\":\n}") == Problems{"is not JSON: syntax error in line 3"});
  CHECK(problems("[1]") == Problems{"is not a JSON object"});
  CHECK(problems(R"({"name": 1, "flops_per_size": 0, "range": []})") ==
        Problems{"'name' is not a string", "'flops_per_size' must be more than 0, not 0",
                 "'coefficients' is missing; expected an object with E, A, K, a, b and c",
                 "'range' is not an object"});
  const std::string coefficients = R"("coefficients": {"E": 1, "A": 2, "K": 3, "a": 0.4, "b": 0, "c": 0.6})";
  CHECK(problems("{" + coefficients + R"(, "range": {"token": [1, 2], "tokens": [1]}})") ==
        Problems{"unknown key 'range.token'; did you mean 'tokens'?",
                 "'range.tokens' is not a pair [low, high]"});
  CHECK(problems("{" + coefficients + R"(, "range": {"tokens": [2, 1]}})") ==
        Problems{"'range.tokens' goes from 2 down to 1"});
  CHECK(problems(R"({"coefficients": {"e": 1, "A": 2, "K": 3, "a": "0.4", "b": 0}})") ==
        Problems{"unknown key 'coefficients.e'", "'coefficients.E' is missing",
                 "'coefficients.a' is not a number", "'coefficients.c' is missing"});
}
