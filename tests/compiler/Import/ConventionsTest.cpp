// The conventions of other tools on published models, against what those tools print.
#include "compiler/Budget/Conventions.h"
#include "tests/compiler/Import/HuggingFaceFixtures.h"

#include <catch2/catch.hpp>
#include <map>

using namespace smelt;

namespace {

std::map<std::string_view, int64_t> flopsOf(const char *name, int64_t length = 4096) {
  std::map<std::string_view, int64_t> result;
  const auto all = budget::conventions(tests::readFixture(name).architecture, length);
  REQUIRE(all);
  for (const budget::Convention &convention : *all) {
    result[convention.name] = convention.training_flops;
  }
  return result;
}

} // namespace

TEST_CASE("the conventions of other tools come out to the last FLOP") {
  struct Printed {
    const char *convention;
    int64_t mixtral, qwen3, deepseek;
  };
  constexpr Printed printed[] = {
      {"exact", 79713533952, 23082958848, 250457382912},
      {"maxtext", 79712747520, 23081779200, 250449887232},
      {"megatron", 79706456064, 23006281728, 249812054016},
      {"palm", 82933972992, 27913617408, 281152192512},
      {"torchtitan", 82935570432, 27914883072, 281158321152},
      {"6N", 77279551488, 20118196224, 225313784832},
  };
  auto mixtral = flopsOf("mixtral-8x7b");
  auto qwen3 = flopsOf("qwen3-30b-a3b");
  auto deepseek = flopsOf("deepseek-v3");
  CHECK(mixtral.size() == 7);
  for (const Printed &row : printed) {
    CAPTURE(row.convention);
    CHECK(mixtral[row.convention] == row.mixtral);
    CHECK(qwen3[row.convention] == row.qwen3);
    CHECK(deepseek[row.convention] == row.deepseek);
  }
  CHECK(mixtral["chinchilla"] - mixtral["palm"] == 6 * int64_t{32000} * 4096 + 9 * int64_t{32} * 32 * 4096);
}

// Figures that the tools' own threads give after their corrections: a pass of so many tokens, in TFLOPs.
TEST_CASE("corrected figures of other tools' threads come out to every printed digit") {
  const auto teraflops = [](int64_t per_token, int64_t tokens) {
    return static_cast<double>(per_token) * static_cast<double>(tokens) / 1e12;
  };
  // maxtext pull 678: a top-2 mixture, a full sequence of 1024.
  CHECK(teraflops(flopsOf("mixtral-8x7b", 1024)["palm"], 1024) == Approx(79.9766).margin(5e-5));
  // maxtext pull 1988: the causal half of attention, and the weights, of sequences of 8192; with
  // DeepSeek-V2-Lite scores of 192 and values of 128.
  const struct {
    const char *name;
    double attention, weights;
  } rows[] = {{"llama-2-7b", 211.106, 1299.004}, {"deepseek-v2-lite", 111.326, 481.947}};
  for (const auto &row : rows) {
    CAPTURE(row.name);
    auto flops = flopsOf(row.name, 8192);
    const double attention = teraflops(flops["palm"] - flops["maxtext"], 32768); // the other half
    CHECK(attention == Approx(row.attention).margin(5e-4));
    CHECK(teraflops(flops["maxtext"], 32768) - attention == Approx(row.weights).margin(5e-4));
  }
}

TEST_CASE("windows cap what counts without a causal mask") {
  CHECK(flopsOf("gpt-oss-120b")["torchtitan"] == 34534221696);
  CHECK(flopsOf("gpt-oss-20b")["torchtitan"] == 24141260160);
}
