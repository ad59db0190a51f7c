#include "compiler/Spec/Suggest.h"
#include "compiler/Spec/Diagnostics.h"

#include <array>
#include <catch2/catch.hpp>

using namespace smelt::spec;

TEST_CASE("the nearest word is suggested when it is near") {
  constexpr std::array<std::string_view, 4> words{"head_dim", "kv_heads", "query_heads", "visits"};
  CHECK(nearestWord("head_dims", words) == "head_dim");
  CHECK(nearestWord("haed_dim", words) == "head_dim");
  CHECK(nearestWord("q_heads", words) == "kv_heads");
  CHECK(nearestWord("visit", words) == "visits");
  CHECK(nearestWord("rope", words).empty());
  CHECK(nearestWord("", words).empty());
  CHECK(nearestWord(std::string(100000, 'v'), words).empty());
  CHECK(suggestion("vists", words) == "; did you mean 'visits'?");
  CHECK(suggestion("xyz", words).empty());
}

TEST_CASE("words are listed as in a sentence") {
  constexpr std::array<std::string_view, 3> words{"a", "b", "c"};
  CHECK(listWords(words) == "'a', 'b' or 'c'");
  CHECK(listWords(std::span(words).first(1)) == "'a'");
}

TEST_CASE("diagnostics are sorted, each once") {
  Diagnostics diagnostics("f");
  diagnostics.add({2, 1}, "b");
  diagnostics.add({1, 9}, "a");
  diagnostics.add({2, 1}, "b");
  diagnostics.add({}, "whole file");
  CHECK(diagnostics.text() == "f: whole file\nf:1:9: a\nf:2:1: b\n");
}
