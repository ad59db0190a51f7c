#include "compiler/Budget/Attended.h"

#include <catch2/catch.hpp>

using smelt::budget::Attended;

TEST_CASE("the causal mean keeps its half") {
  CHECK(Attended::causal(1).text() == "1");
  CHECK(Attended::causal(2).text() == "1.5");
  CHECK(Attended::causal(783).text() == "392");
  CHECK(Attended::causal(4096).text() == "2048.5");
  CHECK(Attended().text() == "392");
  CHECK(Attended::full(4096).text() == "4096");
}

TEST_CASE("attended positions are read from text") {
  CHECK(Attended::parse("392") == Attended::positions(392));
  CHECK(Attended::parse("392.0") == Attended::positions(392));
  CHECK(Attended::parse("2048.5") == Attended::causal(4096));
  CHECK(Attended::parse("0.5")->half());
  CHECK(Attended::parse("9223372036854775807")->whole() == INT64_MAX);
  for (const char *bad :
       {"", "0", "0.0", "-1", "-0.5", "x", "1x", "1.", "1.25", " 1", "1 ", "9223372036854775808"}) {
    CAPTURE(bad);
    CHECK_FALSE(Attended::parse(bad));
  }
}
