#include "smelt/status.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

TEST_CASE("docs/errors.md lists every status with its exit code and text, and no other") {
  std::ifstream file(SMELT_SOURCE_DIR "/docs/errors.md");
  REQUIRE(file);
  std::set<std::string> rows, expected;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("| ", 0) == 0 && line.find("| exit code |") == std::string::npos) {
      rows.insert(line);
    }
  }
#define SMELT_EXPECT_ROW(name, code, text) expected.insert("| " #code " | `" #name "` | " text " |");
  SMELT_STATUS_TABLE(SMELT_EXPECT_ROW)
#undef SMELT_EXPECT_ROW
  CHECK(rows == expected);
}
