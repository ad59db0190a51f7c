// Broken specs never crash the reader: thousands of random edits of good ones. The libFuzzer target
// tests/fuzz goes further; this runs everywhere.
#include "compiler/Budget/Budget.h"
#include "compiler/Spec/SpecReader.h"
#include "compiler/Spec/SpecValidator.h"
#include "compiler/Spec/SpecWriter.h"
#include "tests/compiler/Spec/SpecText.h"

#include <catch2/catch.hpp>
#include <random>

using namespace smelt;
using namespace smelt::spec;

namespace {

constexpr const char *kTokens[] = {"[",
                                   "]",
                                   "{",
                                   "}",
                                   "=",
                                   ".",
                                   "\"",
                                   "\"\"\"",
                                   "'",
                                   "#",
                                   "\n",
                                   "\r",
                                   ",",
                                   "-",
                                   "inf",
                                   "nan",
                                   "true",
                                   "1e999",
                                   "0x7",
                                   "9223372036854775807",
                                   "0",
                                   "-1",
                                   "[[",
                                   "]]",
                                   "[moe]",
                                   "model",
                                   "\\u0000",
                                   "\xff",
                                   "\xef\xbb\xbf",
                                   " ",
                                   "1979-05-27T07:32:00Z",
                                   "[segment.attention]",
                                   "[[segment]]",
                                   "a.b.c"};

// One random edit: a token put in, a stretch removed, repeated, moved or overwritten, or a byte flipped.
void mutate(std::string &text, std::mt19937 &random) {
  const auto below = [&](size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const size_t at = below(text.size());
  const size_t length = below(std::min<size_t>(text.size() - at, 40));
  switch (random() % 5) {
  case 0:
    text.insert(at, kTokens[below(std::size(kTokens))]);
    break;
  case 1:
    text.erase(at, length);
    break;
  case 2:
    text.insert(below(text.size()), text.substr(at, length));
    break;
  case 3:
    text.replace(at, length, kTokens[below(std::size(kTokens))]);
    break;
  default:
    if (!text.empty()) {
      text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
    }
  }
}

} // namespace

TEST_CASE("mutated specs are read or refused, never worse") {
  std::mt19937 random(20260729);
  int valid = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = tests::kFullSpec;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      mutate(text, random);
    }
    const SpecResult result = parseSpec(text, "mutant.toml");
    REQUIRE(result.spec.has_value() == result.diagnostics.empty());
    if (result) {
      ++valid;
      REQUIRE(validate(*result.spec).empty());
      REQUIRE(budget::computeBudget(*result.spec));
      REQUIRE(parseSpec(writeSpec(*result.spec), "again").spec == result.spec);
    } else {
      REQUIRE_FALSE(result.diagnostics.text().empty());
    }
  }
  CHECK(valid > 100); // edits of comments, numbers and spaces leave a spec
}
