#include "compiler/Law/Runs.h"

#include <catch2/catch.hpp>

using namespace smelt;

namespace {

const std::string kHeader = "training_flops_per_token,sparsity_percent,tokens,loss\n";

std::string problems(const std::string &text) { return law::readRuns(text, "runs.csv").diagnostics.text(); }

} // namespace

TEST_CASE("runs are read from any order of columns, with quotes, comments and Windows line ends") {
  const law::RunsResult result =
      law::readRuns("\xEF\xBB\xBF# a study\r\n"
                    "tokens, loss ,\"cell\",note,sparsity_percent,training_flops_per_token\r\n"
                    "\r\n"
                    "2e10,2.5,\"100M, \"\"85\"\"\",first,85,6.4e8\r\n"
                    "3e10,2.25,b,,0,1280000000",
                    "runs.csv");
  INFO(result.diagnostics.text());
  REQUIRE(result);
  REQUIRE(result.runs.size() == 2);
  CHECK(result.ignored_columns == std::vector<std::string>{"note"});
  CHECK(result.runs[0].tokens == 2e10);
  CHECK(result.runs[0].loss == 2.5);
  CHECK(result.runs[0].cell == "100M, \"85\"");
  CHECK(result.runs[0].sparsity == 0.85);
  CHECK(result.runs[0].training_flops_per_token == 6.4e8);
  CHECK(result.runs[0].line == 4);
  CHECK(result.runs[1].sparsity == 0);
  CHECK(result.runs[1].training_flops_per_token == 1.28e9);
}

TEST_CASE("without a cell column, runs of equal size and sparsity share a cell") {
  const law::RunsResult result =
      law::readRuns(kHeader + "1e9,85,1e10,3\n1e9,85,2e10,2.9\n1e9,95,1e10,2.8\n", "");
  REQUIRE(result);
  CHECK(result.runs[0].cell == result.runs[1].cell);
  CHECK(result.runs[0].cell != result.runs[2].cell);
}

TEST_CASE("dense runs need no sparsity") {
  const law::RunsResult result = law::readRuns("training_flops_per_token,tokens,loss\n1e9,1e10,3\n", "");
  REQUIRE(result);
  CHECK(result.runs[0].sparsity == 0);
}

TEST_CASE("missing, doubled and misspelt columns are named") {
  CHECK(problems("training_flops_per_token,token,loss,loss\n1,2,3,4\n") ==
        "runs.csv:1:1: column 'tokens' is missing; did you mean 'token'?; expected training_flops_per_token, "
        "sparsity_percent, tokens, loss and, optionally, cell\n"
        "runs.csv:1:37: column 'loss' is there twice\n");
  CHECK(problems("") == "runs.csv: is empty; expected a line with the columns training_flops_per_token, "
                        "sparsity_percent, tokens, loss and, optionally, cell\n");
  CHECK(problems(kHeader) == "runs.csv: has no runs below its header\n");
}

TEST_CASE("every wrong field is reported where it is") {
  CHECK(problems(kHeader + "1e9,85,1e10,abc\n-1,0.85,0,3\n1e9,100,1e10,nan\n1e9,85\n1e9,85,1e10,2,\n") ==
        "runs.csv:2:13: loss 'abc' is not a number\n"
        "runs.csv:3:1: training_flops_per_token must be more than 0, not -1\n"
        "runs.csv:3:4: sparsity_percent 0.85 is below 1 %; it counts in per cent, 85 for S = 0.85\n"
        "runs.csv:3:9: tokens must be more than 0, not 0\n"
        "runs.csv:4:5: sparsity_percent must be at least 0 and less than 100, not 100\n"
        "runs.csv:4:14: loss 'nan' is not a number\n"
        "runs.csv:5:1: has 2 fields, but the header has 4\n"
        "runs.csv:6:1: has 5 fields, but the header has 4\n");
}

TEST_CASE("columns count characters, and quotes must close") {
  const std::string header = "cell,training_flops_per_token,tokens,loss\n";
  CHECK(problems(header + "größe,x,1,1\n") == "runs.csv:2:7: training_flops_per_token 'x' is not a number\n");
  CHECK_THAT(problems(header + "\"a,1,1,1\n"), Catch::Contains("runs.csv:2:1: this quote is not closed"));
  CHECK_THAT(problems(header + "\"a\"b,1,1,1\n"),
             Catch::Contains("runs.csv:2:4: expected a comma after the closing quote"));
  CHECK(problems(header + ",1,1,1\n") == "runs.csv:2:1: the cell has no name\n");
}
