// Every spec in specs/ is valid, canonical after one round trip, and the published cells say what the grid
// says.
#include "compiler/Spec/SpecReader.h"
#include "compiler/Spec/SpecWriter.h"
#include "tests/support/PublishedGrid.h"

#include <catch2/catch.hpp>
#include <filesystem>

using namespace smelt;
using namespace smelt::spec;

namespace {
const std::filesystem::path kRoot = SMELT_SOURCE_DIR;
} // namespace

TEST_CASE("shipped specs are valid and named after their files") {
  int specs = 0;
  for (const char *folder : {"specs/smelt", "specs/tests"}) {
    for (const auto &entry : std::filesystem::directory_iterator(kRoot / folder)) {
      const SpecResult result = readSpecFile(entry.path());
      INFO(result.diagnostics.text());
      REQUIRE(result);
      CHECK(result.spec->name == entry.path().stem());
      CHECK(parseSpec(writeSpec(*result.spec), "again").spec == result.spec);
      ++specs;
    }
  }
  CHECK(specs >= 28 + 8);
}

TEST_CASE("the published cells have the dimensions of the grid") {
  for (const tests::PublishedCell &cell : tests::publishedGrid()) {
    CAPTURE(cell.name());
    const SpecResult result = readSpecFile(kRoot / "specs/smelt" / (cell.name() + ".toml"));
    REQUIRE(result);
    const ModelSpec &spec = *result.spec;
    const auto number = [&](const char *column) { return static_cast<int64_t>(cell.number(column)); };
    CHECK(spec.vocab_size == 32768);
    CHECK(spec.hidden_size == number("hidden_size"));
    CHECK(spec.attention.query_heads == number("query_heads"));
    CHECK(spec.attention.kv_heads == number("kv_heads"));
    CHECK(spec.attention.head_dim == number("head_dim"));
    CHECK(spec.moe->experts == number("experts"));
    CHECK(spec.moe->top_k == number("top_k"));
    CHECK(spec.moe->expert_hidden_size == number("expert_hidden_size"));
    CHECK(spec.physicalLayers() == number("layers"));
    CHECK(spec.executedLayers() == number("executed_layers"));
    for (const Segment &segment : spec.segments) {
      CHECK(segment.residual_scale == 1.0 / static_cast<double>(segment.visits));
    }
  }
}
