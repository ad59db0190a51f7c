// Small random configs of every family against the models that their classes build (make_class_totals.py).
#include "compiler/Budget/Accounting.h"
#include "compiler/Import/HuggingFace.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

using namespace smelt;

TEST_CASE("random configs are counted as their classes build them") {
  std::ifstream stream(std::string(SMELT_SOURCE_DIR) + "/tests/compiler/Import/class_totals.json");
  const nlohmann::json file = nlohmann::json::parse(stream);
  std::map<std::string, int> checked;
  for (const nlohmann::json &row : file["models"]) {
    const std::string config = row["config"].dump();
    CAPTURE(config);
    const hf::ModelResult result = hf::parseConfig(config, "c.json", "m");
    INFO(result.diagnostics.text());
    REQUIRE(result);
    CHECK(budget::accountFor(result.model->architecture).account->total_params ==
          row["parameters"].get<int64_t>());
    ++checked[result.model->model_type];
  }
  CHECK(checked.size() == 20);
  for (const auto &[family, count] : checked) {
    CAPTURE(family);
    CHECK(count == 6);
  }
}
