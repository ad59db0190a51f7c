#include "compiler/Spec/SpecWriter.h"
#include "compiler/Spec/SpecReader.h"
#include "tests/compiler/Spec/SpecText.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace smelt::spec;
using namespace smelt;

namespace {

void checkRoundTrip(const ModelSpec &spec) {
  const std::string text = writeSpec(spec);
  CAPTURE(text);
  const SpecResult again = parseSpec(text, "written");
  INFO(again.diagnostics.text());
  REQUIRE(again);
  CHECK(*again.spec == spec);
  CHECK(writeSpec(*again.spec) == text);
}

} // namespace

TEST_CASE("written specs read back as they were") {
  checkRoundTrip(*parseSpec(tests::kFullSpec, "s").spec);
  for (uint64_t seed = 0; seed < 500; ++seed) {
    checkRoundTrip(tests::generateSpec(seed));
  }
}

TEST_CASE("numbers read back to the last bit") {
  ModelSpec spec = *parseSpec(tests::kFullSpec, "s").spec;
  for (double value : {1e-6, 0.1, 1.0 / 3, 1e-30, 123456789.125, std::nextafter(1e-6, 1), 1e16, 3e38}) {
    spec.norm_eps = value;
    spec.segments[0].residual_scale = value;
    spec.attention.rope_theta = spec.segments[0].attention.rope_theta = 1 + value;
    checkRoundTrip(spec);
  }
}

TEST_CASE("names with any character read back") {
  ModelSpec spec = *parseSpec(tests::kFullSpec, "s").spec;
  for (const char *name : {"a \"b\" \\c", "é 模型", "# no comment", "\x01\x02", "'''", "a\b\f"}) {
    spec.name = name;
    checkRoundTrip(spec);
  }
}

TEST_CASE("the text is canonical") {
  const char *text = R"(# made by a test

[model]
name = "m"
vocab_size = 10
hidden_size = 8
norm_eps = 1e-6
tie_embeddings = false

[attention]
query_heads = 2
kv_heads = 1
head_dim = 4
rope_theta = 10000.0
qk_norm = "none"
qkv_bias = false

[moe]
experts = 4
top_k = 2
expert_hidden_size = 8
router = "softmax"
renormalize = true

[[segment]]
layers = 2

[[segment]]
layers = 1
visits = 3
order = "block"
residual_scale = 0.5
kv_cache = "per_visit"
[segment.attention]
head_dim = 6
)";
  const SpecResult result = parseSpec(text, "s");
  INFO(result.diagnostics.text());
  REQUIRE(result);
  CHECK(writeSpec(*result.spec, "made by a test") == text);
  CHECK(writeSpec(*result.spec, "two\n\nlines").find("# two\n#\n# lines\n\n[model]") == 0);
}
