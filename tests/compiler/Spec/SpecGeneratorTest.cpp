#include "tests/support/SpecGenerator.h"

#include "compiler/Spec/SpecNames.h"
#include "compiler/Spec/SpecValidator.h"
#include "compiler/Spec/SpecWriter.h"

#include <catch2/catch.hpp>
#include <set>

using namespace smelt;
using namespace smelt::spec;

namespace {

// What a spec exercises, as words.
std::set<std::string> features(const ModelSpec &spec) {
  std::set<std::string> found;
  const auto note = [&](const std::string &name, const auto &value) {
    if constexpr (std::is_convertible_v<decltype(value), std::string_view>) {
      found.insert(name + "=" + std::string(value));
    } else {
      found.insert(name + "=" + std::to_string(value));
    }
  };
  note("tied", spec.tie_embeddings);
  found.insert(spec.moe ? (spec.mlp ? "mixed" : "moe only") : "dense only");
  if (spec.moe) {
    note("router", toString(spec.moe->router));
    note("renormalize", spec.moe->renormalize);
    note("shared", spec.moe->shared_experts > 0);
    note("odd experts", spec.moe->experts % 2);
    note("all experts", spec.moe->top_k == spec.moe->experts);
  }
  for (const Segment &segment : spec.segments) {
    const Attention &a = segment.attention;
    note("visits", segment.visits);
    note(segment.visits > 1 && segment.layers > 1 ? "looped order" : "unlooped order",
         toString(segment.order));
    note("own scale", segment.residual_scale != 1.0 / double(segment.visits));
    note("qk_norm", toString(a.qk_norm));
    note("bias", a.qkv_bias);
    note("square", a.queryWidth() == spec.hidden_size);
    note("head_dim", a.head_dim);
    note("grouped", a.query_heads > a.kv_heads);
    note("heads overridden",
         a.query_heads != spec.attention.query_heads || a.kv_heads != spec.attention.kv_heads);
    note("head_dim overridden", a.head_dim != spec.attention.head_dim);
    note("rope_theta overridden", a.rope_theta != spec.attention.rope_theta);
    note("qk_norm overridden", a.qk_norm != spec.attention.qk_norm);
    note("bias overridden", a.qkv_bias != spec.attention.qkv_bias);
  }
  return found;
}

} // namespace

TEST_CASE("generated specs are valid and small") {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const ModelSpec spec = tests::generateSpec(seed);
    CAPTURE(seed, writeSpec(spec));
    const auto problems = validate(spec);
    CHECK((problems.empty() ? "" : problems[0].message) == "");
    CHECK(spec.executedLayers() <= 3 * 2 * 4);
  }
}

TEST_CASE("the same seed gives the same spec") {
  CHECK(tests::generateSpec(7) == tests::generateSpec(7));
  CHECK(tests::generateSpec(7) != tests::generateSpec(8));
}

TEST_CASE("twenty seeds cover the fields") {
  std::set<std::string> found;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    found.merge(features(tests::generateSpec(seed)));
  }
  for (const char *feature : {"tied=0",
                              "tied=1",
                              "mixed",
                              "moe only",
                              "dense only",
                              "router=softmax",
                              "router=sigmoid",
                              "renormalize=0",
                              "renormalize=1",
                              "shared=0",
                              "shared=1",
                              "odd experts=1",
                              "all experts=1",
                              "all experts=0",
                              "visits=1",
                              "visits=2",
                              "visits=3",
                              "visits=4",
                              "looped order=block",
                              "looped order=layer",
                              "own scale=1",
                              "own scale=0",
                              "qk_norm=none",
                              "qk_norm=per_head",
                              "qk_norm=full_width",
                              "bias=0",
                              "bias=1",
                              "square=0",
                              "head_dim=42",
                              "head_dim=6",
                              "head_dim=10",
                              "head_dim=14",
                              "grouped=1",
                              "grouped=0",
                              "heads overridden=1",
                              "head_dim overridden=1",
                              "rope_theta overridden=1",
                              "qk_norm overridden=1",
                              "bias overridden=1"}) {
    CAPTURE(feature);
    CHECK(found.contains(feature));
  }
}

TEST_CASE("field changes are valid and differ") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ModelSpec spec = tests::generateSpec(seed);
    for (const tests::FieldChange &change : tests::fieldChanges(spec)) {
      CAPTURE(seed, change.field);
      CHECK(change.spec != spec);
      CHECK(validate(change.spec).empty());
    }
  }
}
