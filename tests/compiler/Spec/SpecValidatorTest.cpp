// The rules that values must keep, through the reader: where each problem is shown and what it says.
#include "compiler/Spec/SpecValidator.h"
#include "compiler/Spec/SpecReader.h"
#include "tests/compiler/Spec/SpecText.h"

#include <catch2/catch.hpp>

using namespace smelt::spec;
using smelt::tests::edited;
using smelt::tests::kFullSpec;

namespace {

// The only problem of the spec with one line changed.
std::string problem(const std::string &from, const std::string &to) {
  const SpecResult result = parseSpec(edited(from, to), "s");
  CHECK(result.diagnostics.size() == 1);
  std::string text = result.diagnostics.text();
  return text.empty() ? text : text.substr(0, text.size() - 1);
}

ModelSpec full() { return *parseSpec(kFullSpec, "s").spec; }

} // namespace

TEST_CASE("sizes must be in range") {
  CHECK(problem("hidden_size = 16", "hidden_size = 0") ==
        "s:4:1: 'hidden_size' in [model] must be from 1 to 1048576, not 0");
  CHECK(problem("hidden_size = 16", "hidden_size = -8") ==
        "s:4:1: 'hidden_size' in [model] must be from 1 to 1048576, not -8");
  CHECK(problem("vocab_size = 100", "vocab_size = 9223372036854775807") ==
        "s:3:1: 'vocab_size' in [model] must be from 1 to 16777216, not 9223372036854775807");
  CHECK(problem("experts = 5", "experts = 0") == "s:17:1: 'experts' in [moe] must be from 1 to 16384, not 0");
  CHECK(problem("layers = 2", "layers = 0") ==
        "s:29:1: 'layers' in [[segment]] must be from 1 to 4096, not 0");
  CHECK(problem("layers = 2", "layers = 4096") == "s:37:1: the segments have more than 4096 layers together");
  CHECK(problem("visits = 3", "visits = 0") ==
        "s:30:1: 'visits' in [[segment]] must be from 1 to 256, not 0");
  CHECK(problem("hidden_size = 24", "hidden_size = 0") ==
        "s:26:1: 'hidden_size' in [mlp] must be from 1 to 1048576, not 0");
  CHECK(problem("query_heads = 6\nkv_heads = 3\nhead_dim = 12",
                "query_heads = 16383\nkv_heads = 3\nhead_dim = 120") ==
        "s:9:1: 'query_heads' in [attention] x 'head_dim' = 16383 x 120 is more than 1048576");
}

TEST_CASE("numbers must be positive and finite in 32 bits") {
  for (const char *bad : {"0.0", "-1e-6", "inf", "nan", "1e39", "1e-60"}) {
    CAPTURE(bad);
    CHECK(problem("norm_eps = 1e-5", std::string("norm_eps = ") + bad)
              .find("s:5:1: 'norm_eps' in [model] must be a positive finite 32-bit number, not ") == 0);
    CHECK(
        problem("residual_scale = 0.25", std::string("residual_scale = ") + bad)
            .find("s:32:1: 'residual_scale' in [[segment]] must be a positive finite 32-bit number, not ") ==
        0);
  }
  for (const char *bad : {"0.5", "-1.0", "inf", "nan"}) {
    CHECK(problem("rope_theta = 5e5", std::string("rope_theta = ") + bad)
              .find("s:12:1: 'rope_theta' in [attention] must be finite and at least 1, not ") == 0);
  }
}

TEST_CASE("attention must be consistent") {
  CHECK(problem("kv_heads = 4", "kv_heads = 3") == "s:40:1: 'query_heads' in [segment.attention] = 4 is not "
                                                   "a multiple of 'kv_heads' = 3: every KV head serves "
                                                   "the same number of query heads");
  CHECK(problem("head_dim = 12", "head_dim = 13") ==
        "s:11:1: 'head_dim' in [attention] = 13 is odd: RoPE rotates pairs of elements");
}

TEST_CASE("experts must be consistent") {
  CHECK(problem("top_k = 2", "top_k = 6") == "s:18:1: 'top_k' = 6 in [moe] is more than 'experts' = 5");
  CHECK(problem("shared_experts = 2\n", "") == "s:22:1: 'shared_expert_hidden_size' in [moe] has no effect "
                                               "without 'shared_experts'; set 'shared_experts' or "
                                               "remove it");
  CHECK(problem("shared_expert_hidden_size = 7\n", "") ==
        "s:22:1: 'shared_experts' = 2 in [moe] needs 'shared_expert_hidden_size'");
  CHECK(problem("shared_expert_hidden_size = 7", "shared_expert_hidden_size = -7") ==
        "s:23:1: 'shared_expert_hidden_size' in [moe] must be from 1 to 1048576, not -7");
}

TEST_CASE("tables must be used, and used tables must be there") {
  CHECK(problem("ffn = \"dense\"", "ffn = \"moe\"") ==
        "s:25:2: [mlp] has no effect: no segment has ffn = \"dense\"; "
        "remove the table or give a segment that ffn");
  CHECK(problem("ffn = \"moe\"", "ffn = \"dense\"") ==
        "s:16:2: [moe] has no effect: no segment has ffn = \"moe\"; "
        "remove the table or give a segment that ffn");
  CHECK(problem("[mlp]\nhidden_size = 24\n", "") ==
        "s:36:1: a segment with ffn = \"dense\" needs the table [mlp]");
}

TEST_CASE("a default that every segment overrides is refused") {
  CHECK(problem("ffn = \"moe\"\n", "ffn = \"moe\"\n[segment.attention]\nhead_dim = 4\n") ==
        "s:11:1: 'head_dim' in [attention] has no effect: every segment overrides it; give [attention] the "
        "value of "
        "one of the segments");
}

TEST_CASE("names stay on one line") {
  CHECK(problem("\"full\"", "\"\"") == "s:2:1: 'name' in [model] must be 1 to 256 bytes on one line");
  CHECK(problem("\"full\"", "\"a\\nb\"") == "s:2:1: 'name' in [model] must be 1 to 256 bytes on one line");
  CHECK(problem("\"full\"", "\"" + std::string(257, 'x') + "\"") ==
        "s:2:1: 'name' in [model] must be 1 to 256 bytes on one line");
}

TEST_CASE("models too large to count are refused") {
  ModelSpec spec = full();
  spec.hidden_size = Limits::width;
  spec.moe->experts = Limits::experts;
  spec.moe->expert_hidden_size = Limits::width;
  const auto problems = validate(spec);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message.find("the model has about 1.08e+17 parameters; at most 1e+15") == 0);
}

TEST_CASE("specs made by a program are checked too") {
  CHECK(validate(full()).empty());
  ModelSpec spec = full();
  spec.segments.clear();
  const auto problems = validate(spec);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message == "the spec has no [[segment]]");
  CHECK(problems[0].fields == std::vector<std::string>{"segment"});
  CHECK_FALSE(validate(ModelSpec()).empty());
}
